-- +goose Up

-- When a proxy that was marked as out of date had been seen: without it a move
-- behind a renewal that failed is not noticed.
ALTER TABLE proxies ADD COLUMN last_seen_at INTEGER NOT NULL DEFAULT 0;

-- Each move of an expiry that no line in the way of which was paid for explains, as
-- it was seen: a cache, like what it is noticed in. Whether a line that was not
-- settled then explains it, explained_moves says when it is asked.
CREATE TABLE moves (
    proxy_id TEXT    NOT NULL,
    seen_at  INTEGER NOT NULL,
    since    INTEGER NOT NULL,                 -- the look before
    before   INTEGER NOT NULL,
    now      INTEGER NOT NULL,
    PRIMARY KEY (proxy_id, seen_at)
) STRICT, WITHOUT ROWID;
INSERT INTO moves (proxy_id, seen_at, since, before, now) SELECT proxy_id, seen_at, seen_at, before, now FROM moved;
DROP TRIGGER proxy_moved;
DROP TABLE moved;

-- A line explains a move when it paid, or was sent and may have paid, for an expiry
-- before the one that the move ended with. A read may lag behind a renewal by an
-- hour. Where a line did not look at what it pays for, it was sent before the move
-- was seen, but for five minutes between two clocks.
CREATE VIEW explained_moves AS
    SELECT m.proxy_id, m.seen_at, max(l.claim = 0) AS settled
    FROM moves m CROSS JOIN lines l ON l.proxy_id = m.proxy_id CROSS JOIN operations o ON o.id = l.operation
    WHERE ((l.state = 'succeeded' OR l.state = 'charged') AND l.settled_at >= m.since - 3600000000
            OR l.claim = 1 AND (o.first_sent_at IS NOT NULL OR o.ambiguous > 0))
        AND (l.observed_expires_at IS NULL OR l.observed_expires_at < m.now)
        AND coalesce(o.first_sent_at, 0) <= m.seen_at + 300000000
    GROUP BY m.proxy_id, m.seen_at;

-- +goose StatementBegin
CREATE TRIGGER proxy_moved AFTER UPDATE OF expires_at ON proxies
WHEN max(OLD.seen_at, OLD.last_seen_at) > 0 AND NEW.expires_at > OLD.expires_at + 3600000000
    AND NOT EXISTS (SELECT 1 FROM lines l WHERE l.proxy_id = NEW.proxy_id AND (l.state = 'succeeded' OR l.state = 'charged')
        AND l.settled_at >= max(OLD.seen_at, OLD.last_seen_at) - 3600000000
        AND (l.observed_expires_at IS NULL OR l.observed_expires_at < NEW.expires_at))
BEGIN
    DELETE FROM moves WHERE proxy_id = NEW.proxy_id
        AND seen_at IN (SELECT e.seen_at FROM explained_moves e WHERE e.proxy_id = NEW.proxy_id AND e.settled = 1);
    INSERT INTO moves (proxy_id, seen_at, since, before, now)
        VALUES (NEW.proxy_id, NEW.seen_at, max(OLD.seen_at, OLD.last_seen_at), OLD.expires_at, NEW.expires_at)
    ON CONFLICT (proxy_id, seen_at) DO UPDATE SET now = excluded.now;
END;
-- +goose StatementEnd

-- +goose Down
SELECT 1;
