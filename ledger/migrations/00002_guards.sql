-- +goose Up

-- REPLACE deletes the row that is in its way, and an upsert changes it. SQLite
-- fires the triggers against DELETE for a REPLACE only on connections with
-- recursive_triggers, which other tools do not have. These fire before the
-- conflict is looked at, on every connection.

-- +goose StatementBegin
CREATE TRIGGER journal_only_grows BEFORE INSERT ON journal
WHEN NEW.seq <= (SELECT max(seq) FROM journal)
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: a row goes behind the last one'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER transfers_no_replace BEFORE INSERT ON transfers
WHEN EXISTS (SELECT 1 FROM transfers WHERE seq = NEW.seq AND n = NEW.n)
BEGIN SELECT RAISE(ABORT, 'a transfer is never replaced: a correction is a new entry'); END;
-- +goose StatementEnd

-- +goose Down
SELECT 1;
