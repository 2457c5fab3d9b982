-- +goose Up

-- Lists of operations, the last accepted first: of a kind, and in a state that an
-- operation seldom has. Those that nearly all pass are left out, and cost the writer
-- nothing.
CREATE INDEX operations_accepted ON operations (kind, accepted_at);
CREATE INDEX operations_notable ON operations (state, accepted_at)
    WHERE state <> 'accepted' AND state <> 'sending' AND state <> 'completed' AND state <> 'delivered';

-- Entries of one kind: all but charges are seldom.
CREATE INDEX transfers_seldom ON transfers (kind, seq) WHERE kind <> 'charge';

-- The labels of each command that was accepted, to find it by them.
CREATE TABLE command_labels (
    name        TEXT    NOT NULL,
    value       TEXT    NOT NULL,
    accepted_at INTEGER NOT NULL,
    command_id  TEXT    NOT NULL,
    PRIMARY KEY (name, value, accepted_at, command_id)
) STRICT, WITHOUT ROWID;
INSERT INTO command_labels (name, value, accepted_at, command_id)
    SELECT e.key, e.value, c.accepted_at, c.id
    FROM commands c LEFT JOIN journal j ON j.seq = c.accepted_seq LEFT JOIN archived a ON a.seq = c.accepted_seq
         JOIN json_each(coalesce(j.data, a.data, '{}'), '$.labels') e;

-- What people decided, and facts of those kinds that nobody signed: few.
CREATE INDEX journal_decisions ON journal (seq) WHERE type = 'command.released' OR type = 'command.cancelled' OR type = 'operation.resolved'
    OR type = 'proxy.retired' OR type = 'proxy.reinstated' OR type = 'proxy.revealed' OR type = 'account.paused' OR type = 'account.resumed'
    OR type = 'ledger.recorded' OR type = 'sweep.planned' OR type = 'sweep.finished' OR type = 'schedule.paused' OR type = 'schedule.resumed'
    OR type = 'dead.requeued' OR type = 'dead.dropped';

-- When books and provider last agreed: few rows among many.
CREATE INDEX journal_reconciled ON journal (seq) WHERE type = 'ledger.reconciled';

-- The order that delivered each proxy. Of what was archived before this table was made
-- it holds nothing.
CREATE TABLE delivered (
    proxy_id  TEXT PRIMARY KEY,
    operation TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO delivered (proxy_id, operation)
    SELECT e.value, j.data ->> '$.operation_id' FROM journal j JOIN json_each(j.data, '$.proxy_ids') e
    WHERE j.type = 'order.delivered' OR j.type = 'operation.resolved' ORDER BY j.seq
    ON CONFLICT (proxy_id) DO UPDATE SET operation = excluded.operation;

-- +goose Down
SELECT 1;
