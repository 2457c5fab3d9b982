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

-- The inbox that gets what the command came to, "" for none.
ALTER TABLE commands ADD COLUMN reply_to TEXT NOT NULL DEFAULT '';

-- +goose Down
SELECT 1;
