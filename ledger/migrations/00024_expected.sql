-- +goose Up

-- When the proxy expires by the renewal that was paid since its expiry was read; NULL where
-- none was, or where its end cannot be told.
ALTER TABLE proxies ADD COLUMN expected_at INTEGER;
ALTER TABLE proxies ADD COLUMN lasts_until INTEGER GENERATED ALWAYS AS (coalesce(expected_at, expires_at)) VIRTUAL;
CREATE INDEX proxies_lasting ON proxies (lasts_until) WHERE expires_at IS NOT NULL AND gone = 0;

-- +goose Down
SELECT 1;
