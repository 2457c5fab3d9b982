-- +goose Up

-- The last row before each month (UTC) that began within archived rows, as the
-- ledger.archived facts say: the heads of those months' statements.
CREATE TABLE month_ends (
    until INTEGER PRIMARY KEY,                 -- when the next month begins
    seq   INTEGER NOT NULL,
    hash  TEXT    NOT NULL
) STRICT;

-- +goose Down
SELECT 1;
