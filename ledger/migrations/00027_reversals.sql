-- +goose Up

-- A correction that turns the answer for a line around gives it the state of the right answer.
UPDATE lines SET state = 'charged' WHERE state = 'not_charged' AND charged_cents > refunded_cents;
UPDATE lines SET state = 'not_charged' WHERE state = 'charged' AND charged_cents > 0 AND charged_cents <= refunded_cents
    AND (SELECT j.data ->> '$.corrects_seq' FROM journal j WHERE j.operation = lines.operation AND j.operation <> '' AND j.type = 'ledger.recorded'
        AND j.data ->> '$.proxy_id' = lines.proxy_id ORDER BY j.seq DESC LIMIT 1) > 0;

-- A reversal returns to the account that the reversed entry moved from or to.
DROP VIEW v_days;
CREATE VIEW v_days AS
    SELECT date(booked_at / 1000000, 'unixepoch') AS day, count(*) FILTER (WHERE kind = 'charge' OR kind = 'suspense') AS charges,
           coalesce(sum(cents) FILTER (WHERE kind = 'charge' OR kind = 'suspense'), 0) AS charged_cents,
           coalesce(sum(cents) FILTER (WHERE kind = 'refund'), 0) AS refunded_cents,
           coalesce(sum(CASE debit WHEN 'wallet' THEN cents ELSE -cents END) FILTER (WHERE kind = 'funding'), 0) AS funding_cents,
           coalesce(sum(CASE credit WHEN 'wallet' THEN cents ELSE -cents END) FILTER (WHERE kind = 'external'), 0) AS external_cents,
           sum(CASE WHEN debit = 'wallet' THEN cents WHEN credit = 'wallet' THEN -cents ELSE 0 END) AS wallet_change_cents
    FROM transfers GROUP BY 1;

-- +goose Down
SELECT 1;
