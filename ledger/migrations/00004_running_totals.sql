-- +goose Up

-- What was charged less what came back, by the quarter of an hour in which it was
-- booked: the limit of a day, in any time zone, is a sum of some of them. The rows
-- of an edge that is no quarter are between first_seq and last_seq.
CREATE TABLE spent (
    quarter   INTEGER PRIMARY KEY,             -- since 1970 UTC
    first_seq INTEGER NOT NULL,
    last_seq  INTEGER NOT NULL,
    cents     INTEGER NOT NULL
) STRICT;
INSERT INTO spent (quarter, first_seq, last_seq, cents)
    SELECT coalesce(j.time, a.time) / 900000000, min(t.seq), max(t.seq), sum(CASE t.kind WHEN 'refund' THEN -t.cents ELSE t.cents END)
    FROM transfers t LEFT JOIN journal j ON j.seq = t.seq LEFT JOIN archived a ON a.seq = t.seq
    WHERE t.kind = 'charge' OR t.kind = 'suspense' OR t.kind = 'refund' GROUP BY 1;

-- How many operations are in each state. Every state has a row, 0 or more.
CREATE TABLE state_counts (
    state TEXT    PRIMARY KEY,
    n     INTEGER NOT NULL CONSTRAINT state_count_positive CHECK (n >= 0)
) STRICT, WITHOUT ROWID;
INSERT INTO state_counts (state, n)
    SELECT s.state, (SELECT count(*) FROM operations o WHERE o.state = s.state)
    FROM (SELECT from_state AS state FROM arrows UNION SELECT to_state FROM arrows) s;
-- +goose StatementBegin
CREATE TRIGGER operation_counted AFTER INSERT ON operations
BEGIN UPDATE state_counts SET n = n + 1 WHERE state = NEW.state; END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER operation_counted_anew AFTER UPDATE OF state ON operations WHEN OLD.state <> NEW.state
BEGIN
    UPDATE state_counts SET n = n - 1 WHERE state = OLD.state;
    UPDATE state_counts SET n = n + 1 WHERE state = NEW.state;
END;
-- +goose StatementEnd

-- Settled operations with a line that the provider has not resolved.
CREATE INDEX lines_unresolved ON lines (operation) WHERE claim = 1 AND state = 'unresolved';
-- What people recorded for an order.
CREATE INDEX transfers_recorded ON transfers (order_no, kind, cents)
    WHERE order_no <> '' AND (kind = 'external' OR kind = 'funding');
-- Orders without a number that a person answered for.
CREATE INDEX operations_numberless ON operations (accepted_at) WHERE kind = 'order' AND order_no = '' AND state = 'resolved';
-- Plans that wait for an approval, the commands of a slot, and a schedule's
-- replacements were found by reading all there ever were.
CREATE INDEX slots_held ON slots (plan) WHERE state = 'held';
CREATE INDEX sweep_commands_slot ON sweep_commands (schedule, slot_at);
CREATE INDEX replacements_schedule ON replacements (schedule, replaced_at);

-- +goose Down
SELECT 1;
