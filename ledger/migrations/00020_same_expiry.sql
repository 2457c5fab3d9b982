-- +goose Up

-- Two readings of one expiry differ by less than a day (fact.SameExpiry): a list that shows
-- days, beside a detail that shows seconds, is no move and answers no review.
DROP TRIGGER proxy_moved;
-- +goose StatementBegin
CREATE TRIGGER proxy_moved AFTER UPDATE OF expires_at ON proxies
WHEN max(OLD.seen_at, OLD.last_seen_at) > 0 AND NEW.expires_at >= OLD.expires_at + 86400000000
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

DROP VIEW v_reviews;
CREATE VIEW v_reviews AS
    SELECT o.id AS operation_id, o.command_id, o.kind, '' AS proxy_id, o.reason, o.code, o.trace_id, o.updated_at AS since
    FROM operations o WHERE o.live = 1 AND o.state = 'review' AND NOT EXISTS (SELECT 1 FROM lines l WHERE l.operation = o.id AND l.state = 'unresolved')
    UNION ALL
    SELECT o.id, o.command_id, o.kind, l.proxy_id, 'the provider has not resolved this line', o.code, o.trace_id, o.updated_at
    FROM lines l JOIN operations o ON o.id = l.operation
    WHERE l.claim = 1 AND l.state = 'unresolved'
    UNION ALL
    -- What was renewed since, by anybody, or has gone, is nobody's question any more.
    SELECT o.id, o.command_id, o.kind, s.proxy_id, s.reason, o.code, o.trace_id, s.since
    FROM sweep_reviews s JOIN operations o ON o.id = s.operation
    WHERE s.answered_at IS NULL
      AND NOT EXISTS (SELECT 1 FROM retired r WHERE r.proxy_id = s.proxy_id)
      AND NOT EXISTS (SELECT 1 FROM lines l WHERE l.proxy_id = s.proxy_id AND l.state IN ('succeeded', 'charged') AND l.settled_at >= s.since)
      AND NOT EXISTS (SELECT 1 FROM proxies p WHERE p.proxy_id = s.proxy_id AND (p.gone = 1 OR p.expires_at >= s.expires_at + 86400000000));

-- +goose Down
SELECT 1;
