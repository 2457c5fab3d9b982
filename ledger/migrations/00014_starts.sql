-- +goose Up

-- Who ran the account when: a journal has few starts, and they are looked for by what
-- was sent between them.
CREATE INDEX journal_starts ON journal (seq) WHERE type = 'runner.started';

-- +goose Down
SELECT 1;
