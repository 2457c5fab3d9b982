-- +goose Up

-- When an order's detail was last read, and since when it could not be, as the
-- facts about the order say; null where they do not.
ALTER TABLE operations ADD COLUMN read_at INTEGER;
ALTER TABLE operations ADD COLUMN unread_since INTEGER;

-- Slots whose commands may not all be published.
CREATE INDEX slots_planned ON slots (seq) WHERE state = 'planned';

-- +goose Down
SELECT 1;
