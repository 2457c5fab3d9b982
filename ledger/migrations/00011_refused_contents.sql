-- +goose Up

-- The contents under each command's id that were refused before any was accepted, or
-- are in conflict with the one that was: each was told once, and a bounded number of
-- an id is. What was archived before this table was made is not in it: of that,
-- rejections knows the last content of each id.
CREATE TABLE refused_contents (
    command_id   TEXT NOT NULL,
    content_hash TEXT NOT NULL,
    PRIMARY KEY (command_id, content_hash)
) STRICT, WITHOUT ROWID;
INSERT INTO refused_contents (command_id, content_hash)
    SELECT DISTINCT coalesce(data ->> '$.command_id', ''), coalesce(data ->> '$.content_hash', '') FROM journal
    WHERE type = 'command.conflict' OR (type = 'command.rejected' AND coalesce(data ->> '$.operation_id', '') = '');

-- +goose Down
SELECT 1;
