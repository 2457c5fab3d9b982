-- +goose Up

-- What was last published of proxies that no schedule renews: few rows among many.
CREATE INDEX journal_uncovered ON journal (seq) WHERE type = 'listing.uncovered';

-- +goose Down
SELECT 1;
