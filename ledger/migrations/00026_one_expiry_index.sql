-- +goose Up

-- Of most proxies lasts_until is expires_at: a second index of the whole fleet cost a listing
-- as much as all else of it. Only those that were renewed and not read since differ.
DROP INDEX proxies_expiry;
CREATE INDEX proxies_expected ON proxies (expires_at) WHERE expected_at IS NOT NULL AND gone = 0;

-- +goose Down
SELECT 1;
