-- +goose Up

-- What was refused lately is counted as needing a person.
CREATE INDEX rejections_at ON rejections (rejected_at);

-- +goose Down
SELECT 1;
