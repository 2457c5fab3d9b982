-- +goose Up

-- When the first charge of an operation was booked. A refund lowers what was spent then.
ALTER TABLE operations ADD COLUMN charged_at INTEGER;
UPDATE operations SET charged_at = first.time
    FROM (SELECT t.operation, min(t.seq), coalesce(j.time, a.time) AS time
        FROM transfers t LEFT JOIN journal j ON j.seq = t.seq LEFT JOIN archived a ON a.seq = t.seq
        WHERE t.kind = 'charge' OR t.kind = 'suspense' GROUP BY t.operation) first
    WHERE first.operation = operations.id;

-- What was charged in each quarter of an hour, less what ever came back of it: the limit
-- of a day, in any time zone, is a sum of some of them.
CREATE TABLE net_charges (
    quarter INTEGER PRIMARY KEY,               -- since 1970 UTC
    cents   INTEGER NOT NULL
) STRICT;
INSERT INTO net_charges (quarter, cents)
    SELECT CASE t.kind WHEN 'refund' THEN o.charged_at ELSE coalesce(j.time, a.time) END / 900000000,
        sum(CASE t.kind WHEN 'refund' THEN -t.cents ELSE t.cents END)
    FROM transfers t JOIN operations o ON o.id = t.operation LEFT JOIN journal j ON j.seq = t.seq LEFT JOIN archived a ON a.seq = t.seq
    WHERE t.kind = 'charge' OR t.kind = 'suspense' OR t.kind = 'refund' GROUP BY 1;
-- spent counted a refund when it was booked.
DROP TABLE spent;

-- +goose Down
SELECT 1;
