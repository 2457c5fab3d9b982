-- +goose Up

-- The last command.finished of each command. Commands that were over before this table
-- was made have none.
CREATE TABLE finished (
    command_id TEXT    PRIMARY KEY,
    revision   INTEGER NOT NULL,
    seq        INTEGER NOT NULL                -- the journal's row
) STRICT, WITHOUT ROWID;

-- The offer that a proxy was bought by, where its order named one offer only.
CREATE TABLE bought (
    proxy_id   TEXT PRIMARY KEY,
    offer_code TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- +goose Down
SELECT 1;
