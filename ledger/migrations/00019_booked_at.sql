-- +goose Up

-- When a transfer is booked: the latest time of a row that has booked something so far, and
-- not before the ledger was opened. Clocks are set back, and runners take over with other
-- clocks: a row says its own time, and no month, day or export is opened again by it. Every
-- span of time is a span of seq.
ALTER TABLE transfers ADD COLUMN booked_at INTEGER NOT NULL DEFAULT 0;
DROP TRIGGER transfers_no_update;
UPDATE transfers SET booked_at = max(b.latest, coalesce((SELECT opened_at FROM binding), 0))
    FROM (SELECT seq, max(time) OVER (ORDER BY seq) AS latest FROM (
        SELECT DISTINCT t.seq, coalesce(j.time, a.time) AS time
        FROM transfers t LEFT JOIN journal j ON j.seq = t.seq LEFT JOIN archived a ON a.seq = t.seq)) b
    WHERE b.seq = transfers.seq;
-- +goose StatementBegin
CREATE TRIGGER transfers_no_update BEFORE UPDATE ON transfers
BEGIN SELECT RAISE(ABORT, 'a transfer is never changed: a correction is a new entry'); END;
-- +goose StatementEnd

-- The limit of a day goes by the same time.
UPDATE operations SET charged_at = first.booked_at
    FROM (SELECT operation, min(seq), booked_at FROM transfers WHERE kind = 'charge' OR kind = 'suspense' GROUP BY operation) first
    WHERE first.operation = operations.id;
DELETE FROM net_charges;
INSERT INTO net_charges (quarter, cents)
    SELECT CASE t.kind WHEN 'refund' THEN o.charged_at ELSE t.booked_at END / 900000000, sum(CASE t.kind WHEN 'refund' THEN -t.cents ELSE t.cents END)
    FROM transfers t JOIN operations o ON o.id = t.operation
    WHERE t.kind = 'charge' OR t.kind = 'suspense' OR t.kind = 'refund' GROUP BY 1;

DROP VIEW v_days;
CREATE VIEW v_days AS
    SELECT date(booked_at / 1000000, 'unixepoch') AS day, count(*) FILTER (WHERE kind = 'charge' OR kind = 'suspense') AS charges,
           coalesce(sum(cents) FILTER (WHERE kind = 'charge' OR kind = 'suspense'), 0) AS charged_cents,
           coalesce(sum(cents) FILTER (WHERE kind = 'refund'), 0) AS refunded_cents,
           coalesce(sum(cents) FILTER (WHERE kind = 'funding'), 0) AS funding_cents,
           coalesce(sum(cents) FILTER (WHERE kind = 'external'), 0) AS external_cents,
           sum(CASE WHEN debit = 'wallet' THEN cents WHEN credit = 'wallet' THEN -cents ELSE 0 END) AS wallet_change_cents
    FROM transfers GROUP BY 1;

-- It found where a period begins, and missed what lay between two of its rows.
DROP INDEX journal_time;

-- +goose Down
SELECT 1;
