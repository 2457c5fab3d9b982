-- +goose Up

-- With which row the events stream may begin since an archiving, as
-- ledger.bounded said; 0: no event was removed behind it.
ALTER TABLE archives ADD COLUMN events_begin INTEGER NOT NULL DEFAULT 0;

-- +goose Down
SELECT 1;
