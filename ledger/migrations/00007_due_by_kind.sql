-- +goose Up

-- What is due is asked for by kind: a kind that is paused, with a day's operations
-- due, must not be read through to find one of another.
CREATE INDEX operations_due ON operations (kind, state, next_at, id) WHERE live = 1 AND next_at IS NOT NULL;

-- +goose Down
SELECT 1;
