-- +goose Up

-- What people recorded: few rows, found by their ids, behind an archive too.
CREATE INDEX journal_records ON journal (seq) WHERE type = 'ledger.recorded';
CREATE INDEX archived_records ON archived (seq) WHERE type = 'ledger.recorded';

-- +goose Down
SELECT 1;
