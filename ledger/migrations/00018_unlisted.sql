-- +goose Up

-- What the last complete listing did not show, and since when; why the entry of a proxy in
-- a listing could not be read, '' where it could.
ALTER TABLE proxies ADD COLUMN unlisted_at INTEGER;
ALTER TABLE proxies ADD COLUMN unreadable TEXT NOT NULL DEFAULT '';
CREATE INDEX proxies_unlisted ON proxies (seen_at) WHERE unlisted_at IS NOT NULL;
CREATE INDEX proxies_unreadable ON proxies (proxy_id) WHERE unreadable <> '';

-- Entries of the pass under way whose id could not be read. Of the last complete pass: the
-- living proxies that were known, and those of them that it did not show.
ALTER TABLE listing ADD COLUMN nameless INTEGER NOT NULL DEFAULT 0;
ALTER TABLE listing ADD COLUMN known INTEGER NOT NULL DEFAULT 0;
ALTER TABLE listing ADD COLUMN lost INTEGER NOT NULL DEFAULT 0;

-- +goose Down
SELECT 1;
