-- +goose Up

-- What was in review and is answered as not charged can be retried, like what was refused.
INSERT INTO arrows (from_state, to_state) VALUES ('resolved', 'resolved');

-- +goose Down
SELECT 1;
