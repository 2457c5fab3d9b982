-- +goose Up

-- Lists of words in constraints are written with OR: for IN, SQLite builds a
-- table each time it looks, which costs more than the insert itself.

-- The journal: the only table that is not derived from another.
CREATE TABLE journal (
    seq       INTEGER PRIMARY KEY,
    type      TEXT    NOT NULL,
    time      INTEGER NOT NULL,               -- microseconds since 1970 UTC
    operation TEXT    NOT NULL,               -- operation or command id, '' for facts of the account
    data      TEXT    NOT NULL,
    prev_hash TEXT    NOT NULL,
    hash      TEXT    NOT NULL,
    CONSTRAINT journal_seq_positive CHECK (seq > 0),
    CONSTRAINT journal_hash_length  CHECK (length(hash) = 64 AND length(prev_hash) = 64)
) STRICT;
CREATE INDEX journal_operation ON journal (operation) WHERE operation <> '';
-- Every 256th row, to find where a day begins without reading all before it.
CREATE INDEX journal_time ON journal (time) WHERE seq % 256 = 0;

-- +goose StatementBegin
CREATE TRIGGER journal_no_update BEFORE UPDATE ON journal
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: book a correction as a new fact'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER journal_no_delete BEFORE DELETE ON journal
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: history is never deleted'); END;
-- +goose StatementEnd

-- Who this file belongs to, from ledger.opened.
CREATE TABLE binding (
    one           INTEGER PRIMARY KEY CONSTRAINT binding_single CHECK (one = 1),
    account_id    TEXT NOT NULL,
    environment   TEXT NOT NULL CONSTRAINT binding_environment CHECK (environment = 'production' OR environment = 'sandbox'),
    base_url      TEXT NOT NULL,
    currency      TEXT NOT NULL,
    epoch         TEXT NOT NULL,
    opened_at     INTEGER NOT NULL,
    -- Since when a restored ledger may have forgotten sends; null: it has not.
    forgotten_since INTEGER
) STRICT;

CREATE TABLE commands (
    id           TEXT PRIMARY KEY,
    kind         TEXT NOT NULL CONSTRAINT command_kind CHECK (kind = 'order' OR kind = 'renewal'),
    content_hash TEXT NOT NULL,
    accepted_seq INTEGER NOT NULL,            -- of a journal row, here or in an archive
    accepted_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Commands refused before they were accepted: their id is still free.
CREATE TABLE rejections (
    id           TEXT PRIMARY KEY,
    content_hash TEXT NOT NULL,
    code         TEXT NOT NULL,
    reason       TEXT NOT NULL,
    rejected_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE operations (
    id                 TEXT PRIMARY KEY,
    command_id         TEXT NOT NULL REFERENCES commands (id),
    kind               TEXT NOT NULL CONSTRAINT operation_kind CHECK (kind = 'order' OR kind = 'renewal'),
    chunk              TEXT NOT NULL,
    generation         INTEGER NOT NULL CONSTRAINT operation_generation CHECK (generation > 0),
    -- A function of id and binding, so the primary key keeps it unique; an index
    -- of its random text cost a tenth of the writer's time. Verify looks anyway.
    idempotency_key    TEXT NOT NULL,
    state              TEXT NOT NULL,
    live               INTEGER NOT NULL DEFAULT 1 CONSTRAINT operation_live CHECK (live = 0 OR live = 1), -- it has not ended
    version            INTEGER NOT NULL,
    reason             TEXT NOT NULL DEFAULT '',
    code               TEXT NOT NULL DEFAULT '',
    trace_id           TEXT NOT NULL DEFAULT '',
    app_id             TEXT NOT NULL DEFAULT '',
    attempts           INTEGER NOT NULL DEFAULT 0,
    ambiguous          INTEGER NOT NULL DEFAULT 0,
    body_seq           INTEGER,               -- the operation.sending fact that holds the body
    first_sent_at      INTEGER,
    first_ambiguous_at INTEGER,
    next_at            INTEGER,               -- not before
    progress_at        INTEGER,
    order_no           TEXT NOT NULL DEFAULT '',
    expected_count     INTEGER NOT NULL DEFAULT 0,
    delivered_count    INTEGER NOT NULL DEFAULT 0,
    estimate_cents     INTEGER NOT NULL DEFAULT 0,
    charged_cents      INTEGER NOT NULL DEFAULT 0,   -- gross, before refunds
    refunded_cents     INTEGER NOT NULL DEFAULT 0,
    accepted_at        INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL,
    CONSTRAINT operation_refund_within_charge CHECK (refunded_cents >= 0 AND refunded_cents <= charged_cents),
    CONSTRAINT operation_order_no_for_orders  CHECK (order_no = '' OR kind = 'order')
) STRICT;
CREATE INDEX operations_live ON operations (accepted_at) WHERE live = 1;
CREATE INDEX operations_next ON operations (next_at) WHERE live = 1 AND next_at IS NOT NULL;
CREATE INDEX operations_order_no ON operations (order_no) WHERE order_no <> '';

-- The arrows of docs/state-machine.md. An arrow that is not here does not exist.
CREATE TABLE arrows (
    from_state TEXT NOT NULL,
    to_state   TEXT NOT NULL,
    PRIMARY KEY (from_state, to_state)
) STRICT, WITHOUT ROWID;
INSERT INTO arrows VALUES
    ('accepted', 'sending'), ('accepted', 'held'), ('accepted', 'rejected'), ('accepted', 'waiting'),
    ('accepted', 'review'),
    ('held', 'accepted'), ('held', 'rejected'), ('held', 'held'),
    ('sending', 'sending'), ('sending', 'open'), ('sending', 'waiting'), ('sending', 'rejected'), ('sending', 'review'),
    ('sending', 'completed'), ('sending', 'partial'), ('sending', 'failed'),
    ('waiting', 'sending'), ('waiting', 'waiting'), ('waiting', 'review'), ('waiting', 'rejected'), ('waiting', 'held'),
    ('open', 'open'), ('open', 'delivered'), ('open', 'refunded'), ('open', 'review'),
    ('delivered', 'delivered'), ('delivered', 'refunded'), ('refunded', 'refunded'),
    ('partial', 'partial'), ('rejected', 'rejected'), ('failed', 'failed'),
    ('review', 'review'), ('review', 'resolved'), ('review', 'open'), ('review', 'delivered'), ('review', 'refunded');

-- +goose StatementBegin
CREATE TRIGGER operation_follows_the_arrows BEFORE UPDATE OF state ON operations
WHEN NOT EXISTS (SELECT 1 FROM arrows WHERE from_state = OLD.state AND to_state = NEW.state)
BEGIN SELECT RAISE(ABORT, 'an operation cannot go from this state to that one: see docs/state-machine.md'); END;
-- +goose StatementEnd

-- One proxy inside one renewal. claim = 1 while nobody else may renew it.
CREATE TABLE lines (
    operation           TEXT NOT NULL REFERENCES operations (id),
    proxy_id            TEXT NOT NULL,
    state               TEXT NOT NULL CONSTRAINT line_state
                        CHECK (state = 'pending' OR state = 'skipped' OR state = 'succeeded' OR state = 'failed' OR state = 'unresolved' OR state = 'not_charged' OR state = 'charged' OR state = 'moved'),
    claim               INTEGER NOT NULL CONSTRAINT line_claim CHECK (claim = 0 OR claim = 1),
    observed_expires_at INTEGER,
    duration_days       INTEGER NOT NULL,
    charged_cents       INTEGER NOT NULL DEFAULT 0,   -- gross, before refunds
    refunded_cents      INTEGER NOT NULL DEFAULT 0,
    settled_at          INTEGER,
    PRIMARY KEY (operation, proxy_id),
    CONSTRAINT line_claim_while_open CHECK (claim = 1 OR (state <> 'pending' AND state <> 'unresolved'))
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX one_open_renewal_per_proxy ON lines (proxy_id) WHERE claim = 1;
CREATE INDEX lines_proxy ON lines (proxy_id);

-- Double entry: one row moves cents from the credited account to the debited one.
CREATE TABLE transfers (
    seq       INTEGER NOT NULL,               -- of a journal row, here or in an archive
    n         INTEGER NOT NULL,
    kind      TEXT NOT NULL CONSTRAINT transfer_kind CHECK (kind = 'charge' OR kind = 'refund' OR kind = 'suspense' OR kind = 'resolution' OR kind = 'funding' OR kind = 'external'),
    debit     TEXT NOT NULL,
    credit    TEXT NOT NULL,
    cents     INTEGER NOT NULL CONSTRAINT transfer_cents_positive CHECK (cents > 0),
    operation TEXT NOT NULL,
    order_no  TEXT NOT NULL,
    proxy_id  TEXT NOT NULL,
    PRIMARY KEY (seq, n),
    CONSTRAINT transfer_accounts CHECK ((
        debit = 'wallet' OR debit = 'orders' OR debit = 'renewals' OR debit = 'suspense' OR debit = 'funding' OR debit = 'external') AND (
        credit = 'wallet' OR credit = 'orders' OR credit = 'renewals' OR credit = 'suspense' OR credit = 'funding' OR credit = 'external') AND debit <> credit)
) STRICT, WITHOUT ROWID;
-- +goose StatementBegin
CREATE TRIGGER transfers_no_update BEFORE UPDATE ON transfers
BEGIN SELECT RAISE(ABORT, 'a transfer is never changed: a correction is a new entry'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER transfers_no_delete BEFORE DELETE ON transfers
BEGIN SELECT RAISE(ABORT, 'a transfer is never deleted: a correction is a new entry'); END;
-- +goose StatementEnd

CREATE TABLE totals (
    debit  TEXT NOT NULL,
    credit TEXT NOT NULL,
    kind   TEXT NOT NULL,
    cents  INTEGER NOT NULL,
    PRIMARY KEY (debit, credit, kind)
) STRICT, WITHOUT ROWID;

-- Why the account, or one kind of its operations, does not send.
CREATE TABLE pauses (
    scope  TEXT NOT NULL CONSTRAINT pause_scope CHECK (scope = 'account' OR scope = 'order' OR scope = 'renewal'),
    cause  TEXT NOT NULL,
    since  INTEGER NOT NULL,
    until  INTEGER,                           -- null: until it is resumed
    detail TEXT NOT NULL,
    PRIMARY KEY (scope, cause)
) STRICT, WITHOUT ROWID;

CREATE TABLE slots (
    schedule   TEXT NOT NULL,
    slot_at    INTEGER NOT NULL,
    state      TEXT NOT NULL CONSTRAINT slot_state CHECK (state = 'planned' OR state = 'held' OR state = 'finished' OR state = 'missed'),
    plan       TEXT NOT NULL,
    seq        INTEGER NOT NULL,              -- of a journal row, here or in an archive
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (schedule, slot_at)
) STRICT, WITHOUT ROWID;

-- What was moved out of the journal, from the ledger.archived facts.
CREATE TABLE archives (
    seq           INTEGER PRIMARY KEY,        -- of the fact
    first_seq     INTEGER NOT NULL,
    last_seq      INTEGER NOT NULL,
    last_hash     TEXT NOT NULL,
    snapshot_hash TEXT NOT NULL,
    file          TEXT NOT NULL,
    archived_at   INTEGER NOT NULL,
    CONSTRAINT archive_range CHECK (first_seq > 0 AND last_seq >= first_seq AND seq > last_seq)
) STRICT;

-- Where the journal of this file begins, when its first rows are in an archive:
-- behind this row, with the projections as snapshot holds them. These tables are
-- written once, by ledger archive, into a new file.
CREATE TABLE base (
    one           INTEGER PRIMARY KEY CONSTRAINT base_single CHECK (one = 1),
    seq           INTEGER NOT NULL,
    hash          TEXT NOT NULL,
    time          INTEGER NOT NULL,           -- of that row
    snapshot_hash TEXT NOT NULL
) STRICT;
CREATE TABLE snapshot (
    tbl     TEXT NOT NULL,
    n       INTEGER NOT NULL,
    columns TEXT NOT NULL,
    rows    BLOB NOT NULL,                    -- a JSON array of arrays, deflated
    PRIMARY KEY (tbl, n)
) STRICT;
-- Of the archived rows, those that booked something or that carry labels: when,
-- what and whose they were. The views read them beside the journal.
CREATE TABLE archived (
    seq       INTEGER PRIMARY KEY,
    type      TEXT NOT NULL,
    time      INTEGER NOT NULL,
    operation TEXT NOT NULL,
    hash      TEXT NOT NULL,
    data      TEXT NOT NULL                   -- the labels, of what carries any
) STRICT;
CREATE INDEX archived_operation ON archived (operation) WHERE operation <> '';
-- A file with a row here is an archive: nothing is added behind that row.
CREATE TABLE seal (
    one  INTEGER PRIMARY KEY CONSTRAINT seal_single CHECK (one = 1),
    seq  INTEGER NOT NULL,
    hash TEXT NOT NULL
) STRICT;

-- What each command of a sweep is expected to cost, and which slot planned it last.
CREATE TABLE sweep_commands (
    command_id     TEXT PRIMARY KEY,
    schedule       TEXT NOT NULL,
    slot_at        INTEGER NOT NULL,
    planned_at     INTEGER NOT NULL,
    proxies        INTEGER NOT NULL,
    estimate_cents INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX sweep_commands_planned ON sweep_commands (planned_at, schedule);

-- Proxies that no sweep renews any more.
CREATE TABLE retired (
    proxy_id TEXT PRIMARY KEY,
    by       TEXT NOT NULL,
    reason   TEXT NOT NULL,
    since    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Proxies that sweeps have tried often enough, with the last operation that
-- ended without renewing each. What a person answers is in answered_at.
CREATE TABLE sweep_reviews (
    proxy_id    TEXT PRIMARY KEY,
    operation   TEXT NOT NULL,
    reason      TEXT NOT NULL,
    expires_at  INTEGER NOT NULL,
    since       INTEGER NOT NULL,
    answered_at INTEGER                       -- null: nobody has yet
) STRICT, WITHOUT ROWID;
CREATE INDEX sweep_reviews_open ON sweep_reviews (operation) WHERE answered_at IS NULL;

-- The nearest threshold that was told of a proxy's latest expiry; 0: it expired.
CREATE TABLE warned (
    proxy_id          TEXT PRIMARY KEY,
    expires_at        INTEGER NOT NULL,
    threshold_seconds INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The labels of the order that a proxy came with.
CREATE TABLE proxy_labels (
    proxy_id TEXT NOT NULL,
    name     TEXT NOT NULL,
    value    TEXT NOT NULL,
    PRIMARY KEY (proxy_id, name)
) STRICT, WITHOUT ROWID;

-- The order that buys another proxy in the place of one.
CREATE TABLE replacements (
    proxy_id        TEXT PRIMARY KEY,
    schedule        TEXT NOT NULL,
    command_id      TEXT NOT NULL,
    max_total_cents INTEGER NOT NULL,
    seq             INTEGER NOT NULL,
    replaced_at     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Where the listing of proxies stands: a cache, like what it lists.
CREATE TABLE listing (
    one         INTEGER PRIMARY KEY CONSTRAINT listing_single CHECK (one = 1),
    pass        INTEGER NOT NULL,              -- the last one begun
    began_at    INTEGER NOT NULL,
    page_size   INTEGER NOT NULL,              -- 0: no pass is under way
    page_token  TEXT NOT NULL,                 -- of the next page
    finished_at INTEGER NOT NULL,              -- the last complete pass; 0: none yet
    took        INTEGER NOT NULL               -- that pass, in microseconds
) STRICT;

-- What the provider last said of each proxy: a cache, not a projection.
CREATE TABLE proxies (
    proxy_id     TEXT PRIMARY KEY,
    status       TEXT NOT NULL,
    ip_type      TEXT NOT NULL,
    protocol     TEXT NOT NULL,
    country_code TEXT NOT NULL,
    region       TEXT NOT NULL,
    line_name    TEXT NOT NULL,
    starts_at    INTEGER,
    expires_at   INTEGER,
    seen_at      INTEGER NOT NULL,
    pass         INTEGER NOT NULL,
    gone         INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE INDEX proxies_expiry ON proxies (expires_at) WHERE expires_at IS NOT NULL AND gone = 0;
CREATE INDEX proxies_gone ON proxies (expires_at) WHERE expires_at IS NOT NULL AND gone = 1;

-- What other people's tools may read. These names stay.
CREATE VIEW v_operations AS
    SELECT id AS operation_id, command_id, kind, chunk, generation, idempotency_key, state, reason, code, trace_id,
           attempts, ambiguous, order_no, charged_cents, refunded_cents, estimate_cents,
           first_sent_at, next_at, accepted_at, updated_at
    FROM operations;
CREATE VIEW v_postings AS
    SELECT t.seq, coalesce(j.time, a.time) AS time, coalesce(j.type, a.type) AS type, t.n, t.kind, t.debit AS account, t.cents AS amount_cents,
           t.operation, t.order_no, t.proxy_id
    FROM transfers t LEFT JOIN journal j ON j.seq = t.seq LEFT JOIN archived a ON a.seq = t.seq
    UNION ALL
    SELECT t.seq, coalesce(j.time, a.time), coalesce(j.type, a.type), t.n, t.kind, t.credit, -t.cents, t.operation, t.order_no, t.proxy_id
    FROM transfers t LEFT JOIN journal j ON j.seq = t.seq LEFT JOIN archived a ON a.seq = t.seq;
CREATE VIEW v_proxies AS
    SELECT p.proxy_id, p.status, p.ip_type, p.protocol, p.country_code, p.region, p.line_name,
           p.starts_at, p.expires_at, p.seen_at, p.gone,
           (SELECT l.operation FROM lines l WHERE l.proxy_id = p.proxy_id AND l.claim = 1) AS claimed_by,
           EXISTS (SELECT 1 FROM retired r WHERE r.proxy_id = p.proxy_id) AS retired
    FROM proxies p;
CREATE VIEW v_orders AS
    SELECT id AS operation_id, order_no, command_id, state, expected_count, delivered_count,
           charged_cents, refunded_cents, charged_cents - refunded_cents AS net_cents, accepted_at, updated_at
    FROM operations WHERE kind = 'order';
CREATE VIEW v_renewals AS
    SELECT id AS operation_id, command_id, state, (SELECT count(*) FROM lines WHERE operation = operations.id) AS proxies,
           charged_cents, refunded_cents, charged_cents - refunded_cents AS net_cents, accepted_at, updated_at
    FROM operations WHERE kind = 'renewal';
-- What a person booked for several proxies together is in v_renewals alone.
CREATE VIEW v_proxy_costs AS
    SELECT proxy_id, count(*) FILTER (WHERE state = 'succeeded' OR state = 'charged') AS renewals,
           sum(charged_cents) AS charged_cents, sum(refunded_cents) AS refunded_cents, sum(charged_cents - refunded_cents) AS net_cents,
           max(settled_at) AS settled_at
    FROM lines GROUP BY proxy_id;
CREATE VIEW v_labels AS
    SELECT e.key AS label, e.value AS value, count(DISTINCT c.id) AS commands,
           sum(o.charged_cents) AS charged_cents, sum(o.refunded_cents) AS refunded_cents, sum(o.charged_cents - o.refunded_cents) AS net_cents
    FROM commands c LEFT JOIN journal j ON j.seq = c.accepted_seq LEFT JOIN archived a ON a.seq = c.accepted_seq
         JOIN json_each(coalesce(j.data, a.data, '{}'), '$.labels') e
         JOIN operations o ON o.id > c.id || '/' AND o.id < c.id || '0' AND o.command_id = c.id
    GROUP BY e.key, e.value;
CREATE VIEW v_days AS
    SELECT date(coalesce(j.time, a.time) / 1000000, 'unixepoch') AS day, count(*) FILTER (WHERE t.kind = 'charge' OR t.kind = 'suspense') AS charges,
           coalesce(sum(t.cents) FILTER (WHERE t.kind = 'charge' OR t.kind = 'suspense'), 0) AS charged_cents,
           coalesce(sum(t.cents) FILTER (WHERE t.kind = 'refund'), 0) AS refunded_cents,
           coalesce(sum(t.cents) FILTER (WHERE t.kind = 'funding'), 0) AS funding_cents,
           coalesce(sum(t.cents) FILTER (WHERE t.kind = 'external'), 0) AS external_cents,
           sum(CASE WHEN t.debit = 'wallet' THEN t.cents WHEN t.credit = 'wallet' THEN -t.cents ELSE 0 END) AS wallet_change_cents
    FROM transfers t LEFT JOIN journal j ON j.seq = t.seq LEFT JOIN archived a ON a.seq = t.seq GROUP BY 1;
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
      AND NOT EXISTS (SELECT 1 FROM proxies p WHERE p.proxy_id = s.proxy_id AND (p.gone = 1 OR p.expires_at > s.expires_at));

-- +goose Down
SELECT 1;
