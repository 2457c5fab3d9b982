-- +goose Up

-- Proxies whose expiry moved although no renewal of ours was under way or had
-- settled since it was last seen: a cache, like what it is noticed in. A person's
-- record of what was spent elsewhere explains what was seen before.
CREATE TABLE moved (
    proxy_id TEXT PRIMARY KEY,
    before   INTEGER NOT NULL,
    now      INTEGER NOT NULL,
    seen_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
-- +goose StatementBegin
CREATE TRIGGER proxy_moved AFTER UPDATE OF expires_at ON proxies
WHEN OLD.seen_at > 0 AND NEW.expires_at > OLD.expires_at + 3600000000
    AND NOT EXISTS (SELECT 1 FROM lines l WHERE l.proxy_id = NEW.proxy_id AND (l.claim = 1 OR l.settled_at >= OLD.seen_at - 3600000000))
BEGIN
    INSERT INTO moved (proxy_id, before, now, seen_at) VALUES (NEW.proxy_id, OLD.expires_at, NEW.expires_at, NEW.seen_at)
    ON CONFLICT (proxy_id) DO UPDATE SET now = excluded.now, seen_at = excluded.seen_at;
END;
-- +goose StatementEnd

-- +goose Down
SELECT 1;
