-- What the migrations make: go test ./ledger -run NewLedgersSchema -update
BEGIN IMMEDIATE;
CREATE TABLE goose_db_version (
		id INTEGER PRIMARY KEY AUTOINCREMENT,
		version_id INTEGER NOT NULL,
		is_applied INTEGER NOT NULL,
		tstamp TIMESTAMP DEFAULT (datetime('now'))
	);
INSERT INTO "goose_db_version" ("id", "version_id", "is_applied") VALUES (1, 0, 1);
INSERT INTO "goose_db_version" ("id", "version_id", "is_applied") VALUES (2, 1, 1);
INSERT INTO "goose_db_version" ("id", "version_id", "is_applied") VALUES (3, 2, 1);
INSERT INTO "goose_db_version" ("id", "version_id", "is_applied") VALUES (4, 3, 1);
INSERT INTO "goose_db_version" ("id", "version_id", "is_applied") VALUES (5, 4, 1);
INSERT INTO "goose_db_version" ("id", "version_id", "is_applied") VALUES (6, 5, 1);
INSERT INTO "goose_db_version" ("id", "version_id", "is_applied") VALUES (7, 6, 1);
INSERT INTO "goose_db_version" ("id", "version_id", "is_applied") VALUES (8, 7, 1);
INSERT INTO "goose_db_version" ("id", "version_id", "is_applied") VALUES (9, 8, 1);
INSERT INTO "goose_db_version" ("id", "version_id", "is_applied") VALUES (10, 9, 1);
INSERT INTO "goose_db_version" ("id", "version_id", "is_applied") VALUES (11, 10, 1);
INSERT INTO "goose_db_version" ("id", "version_id", "is_applied") VALUES (12, 11, 1);
INSERT INTO "goose_db_version" ("id", "version_id", "is_applied") VALUES (13, 12, 1);
INSERT INTO "goose_db_version" ("id", "version_id", "is_applied") VALUES (14, 13, 1);
INSERT INTO "goose_db_version" ("id", "version_id", "is_applied") VALUES (15, 14, 1);
INSERT INTO "goose_db_version" ("id", "version_id", "is_applied") VALUES (16, 15, 1);
INSERT INTO "goose_db_version" ("id", "version_id", "is_applied") VALUES (17, 16, 1);
INSERT INTO "goose_db_version" ("id", "version_id", "is_applied") VALUES (18, 17, 1);
INSERT INTO "goose_db_version" ("id", "version_id", "is_applied") VALUES (19, 18, 1);
INSERT INTO "goose_db_version" ("id", "version_id", "is_applied") VALUES (20, 19, 1);
INSERT INTO "goose_db_version" ("id", "version_id", "is_applied") VALUES (21, 20, 1);
INSERT INTO "goose_db_version" ("id", "version_id", "is_applied") VALUES (22, 21, 1);
INSERT INTO "goose_db_version" ("id", "version_id", "is_applied") VALUES (23, 22, 1);
INSERT INTO "goose_db_version" ("id", "version_id", "is_applied") VALUES (24, 23, 1);
INSERT INTO "goose_db_version" ("id", "version_id", "is_applied") VALUES (25, 24, 1);
INSERT INTO "goose_db_version" ("id", "version_id", "is_applied") VALUES (26, 25, 1);
INSERT INTO "goose_db_version" ("id", "version_id", "is_applied") VALUES (27, 26, 1);
INSERT INTO "goose_db_version" ("id", "version_id", "is_applied") VALUES (28, 27, 1);
INSERT INTO "goose_db_version" ("id", "version_id", "is_applied") VALUES (29, 28, 1);
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
, reply_to TEXT NOT NULL DEFAULT '') STRICT, WITHOUT ROWID;
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
    updated_at         INTEGER NOT NULL, read_at INTEGER, unread_since INTEGER, charged_at INTEGER,
    CONSTRAINT operation_refund_within_charge CHECK (refunded_cents >= 0 AND refunded_cents <= charged_cents),
    CONSTRAINT operation_order_no_for_orders  CHECK (order_no = '' OR kind = 'order')
) STRICT;
CREATE TABLE arrows (
    from_state TEXT NOT NULL,
    to_state   TEXT NOT NULL,
    PRIMARY KEY (from_state, to_state)
) STRICT, WITHOUT ROWID;
INSERT INTO "arrows" ("from_state", "to_state") VALUES ('accepted', 'held');
INSERT INTO "arrows" ("from_state", "to_state") VALUES ('accepted', 'rejected');
INSERT INTO "arrows" ("from_state", "to_state") VALUES ('accepted', 'review');
INSERT INTO "arrows" ("from_state", "to_state") VALUES ('accepted', 'sending');
INSERT INTO "arrows" ("from_state", "to_state") VALUES ('accepted', 'waiting');
INSERT INTO "arrows" ("from_state", "to_state") VALUES ('held', 'accepted');
INSERT INTO "arrows" ("from_state", "to_state") VALUES ('held', 'rejected');
INSERT INTO "arrows" ("from_state", "to_state") VALUES ('open', 'delivered');
INSERT INTO "arrows" ("from_state", "to_state") VALUES ('open', 'open');
INSERT INTO "arrows" ("from_state", "to_state") VALUES ('open', 'refunded');
INSERT INTO "arrows" ("from_state", "to_state") VALUES ('open', 'review');
INSERT INTO "arrows" ("from_state", "to_state") VALUES ('partial', 'partial');
INSERT INTO "arrows" ("from_state", "to_state") VALUES ('rejected', 'rejected');
INSERT INTO "arrows" ("from_state", "to_state") VALUES ('resolved', 'resolved');
INSERT INTO "arrows" ("from_state", "to_state") VALUES ('review', 'resolved');
INSERT INTO "arrows" ("from_state", "to_state") VALUES ('review', 'review');
INSERT INTO "arrows" ("from_state", "to_state") VALUES ('sending', 'completed');
INSERT INTO "arrows" ("from_state", "to_state") VALUES ('sending', 'failed');
INSERT INTO "arrows" ("from_state", "to_state") VALUES ('sending', 'open');
INSERT INTO "arrows" ("from_state", "to_state") VALUES ('sending', 'partial');
INSERT INTO "arrows" ("from_state", "to_state") VALUES ('sending', 'rejected');
INSERT INTO "arrows" ("from_state", "to_state") VALUES ('sending', 'review');
INSERT INTO "arrows" ("from_state", "to_state") VALUES ('sending', 'waiting');
INSERT INTO "arrows" ("from_state", "to_state") VALUES ('waiting', 'held');
INSERT INTO "arrows" ("from_state", "to_state") VALUES ('waiting', 'rejected');
INSERT INTO "arrows" ("from_state", "to_state") VALUES ('waiting', 'review');
INSERT INTO "arrows" ("from_state", "to_state") VALUES ('waiting', 'sending');
INSERT INTO "arrows" ("from_state", "to_state") VALUES ('waiting', 'waiting');
CREATE TABLE lines (
    operation           TEXT NOT NULL REFERENCES operations (id),
    proxy_id            TEXT NOT NULL,
    state               TEXT NOT NULL CONSTRAINT line_state
                        CHECK (state = 'pending' OR state = 'skipped' OR state = 'succeeded' OR state = 'failed' OR state = 'unresolved' OR state = 'not_charged' OR state = 'charged'),
    claim               INTEGER NOT NULL CONSTRAINT line_claim CHECK (claim = 0 OR claim = 1),
    observed_expires_at INTEGER,
    duration_days       INTEGER NOT NULL,
    charged_cents       INTEGER NOT NULL DEFAULT 0,   -- gross, before refunds
    refunded_cents      INTEGER NOT NULL DEFAULT 0,
    settled_at          INTEGER,
    PRIMARY KEY (operation, proxy_id),
    CONSTRAINT line_claim_while_open CHECK (claim = 1 OR (state <> 'pending' AND state <> 'unresolved'))
) STRICT, WITHOUT ROWID;
CREATE TABLE transfers (
    seq       INTEGER NOT NULL,               -- of a journal row, here or in an archive
    n         INTEGER NOT NULL,
    kind      TEXT NOT NULL CONSTRAINT transfer_kind CHECK (kind = 'charge' OR kind = 'refund' OR kind = 'suspense' OR kind = 'resolution' OR kind = 'funding' OR kind = 'external'),
    debit     TEXT NOT NULL,
    credit    TEXT NOT NULL,
    cents     INTEGER NOT NULL CONSTRAINT transfer_cents_positive CHECK (cents > 0),
    operation TEXT NOT NULL,
    order_no  TEXT NOT NULL,
    proxy_id  TEXT NOT NULL, booked_at INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (seq, n),
    CONSTRAINT transfer_accounts CHECK ((
        debit = 'wallet' OR debit = 'orders' OR debit = 'renewals' OR debit = 'suspense' OR debit = 'funding' OR debit = 'external') AND (
        credit = 'wallet' OR credit = 'orders' OR credit = 'renewals' OR credit = 'suspense' OR credit = 'funding' OR credit = 'external') AND debit <> credit)
) STRICT, WITHOUT ROWID;
CREATE TABLE totals (
    debit  TEXT NOT NULL,
    credit TEXT NOT NULL,
    kind   TEXT NOT NULL,
    cents  INTEGER NOT NULL,
    PRIMARY KEY (debit, credit, kind)
) STRICT, WITHOUT ROWID;
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
CREATE TABLE archives (
    seq           INTEGER PRIMARY KEY,        -- of the fact
    first_seq     INTEGER NOT NULL,
    last_seq      INTEGER NOT NULL,
    last_hash     TEXT NOT NULL,
    snapshot_hash TEXT NOT NULL,
    file          TEXT NOT NULL,
    archived_at   INTEGER NOT NULL, events_begin INTEGER NOT NULL DEFAULT 0,
    CONSTRAINT archive_range CHECK (first_seq > 0 AND last_seq >= first_seq AND seq > last_seq)
) STRICT;
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
CREATE TABLE archived (
    seq       INTEGER PRIMARY KEY,
    type      TEXT NOT NULL,
    time      INTEGER NOT NULL,
    operation TEXT NOT NULL,
    hash      TEXT NOT NULL,
    data      TEXT NOT NULL                   -- the labels, of what carries any
) STRICT;
CREATE TABLE seal (
    one  INTEGER PRIMARY KEY CONSTRAINT seal_single CHECK (one = 1),
    seq  INTEGER NOT NULL,
    hash TEXT NOT NULL
) STRICT;
CREATE TABLE sweep_commands (
    command_id     TEXT PRIMARY KEY,
    schedule       TEXT NOT NULL,
    slot_at        INTEGER NOT NULL,
    planned_at     INTEGER NOT NULL,
    proxies        INTEGER NOT NULL,
    estimate_cents INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE retired (
    proxy_id TEXT PRIMARY KEY,
    by       TEXT NOT NULL,
    reason   TEXT NOT NULL,
    since    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE sweep_reviews (
    proxy_id    TEXT PRIMARY KEY,
    operation   TEXT NOT NULL,
    reason      TEXT NOT NULL,
    expires_at  INTEGER NOT NULL,
    since       INTEGER NOT NULL,
    answered_at INTEGER                       -- null: nobody has yet
) STRICT, WITHOUT ROWID;
CREATE TABLE warned (
    proxy_id          TEXT PRIMARY KEY,
    expires_at        INTEGER NOT NULL,
    threshold_seconds INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE proxy_labels (
    proxy_id TEXT NOT NULL,
    name     TEXT NOT NULL,
    value    TEXT NOT NULL,
    PRIMARY KEY (proxy_id, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE replacements (
    proxy_id        TEXT PRIMARY KEY,
    schedule        TEXT NOT NULL,
    command_id      TEXT NOT NULL,
    max_total_cents INTEGER NOT NULL,
    seq             INTEGER NOT NULL,
    replaced_at     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE listing (
    one         INTEGER PRIMARY KEY CONSTRAINT listing_single CHECK (one = 1),
    pass        INTEGER NOT NULL,              -- the last one begun
    began_at    INTEGER NOT NULL,
    page_size   INTEGER NOT NULL,              -- 0: no pass is under way
    page_token  TEXT NOT NULL,                 -- of the next page
    finished_at INTEGER NOT NULL,              -- the last complete pass; 0: none yet
    took        INTEGER NOT NULL               -- that pass, in microseconds
, nameless INTEGER NOT NULL DEFAULT 0, known INTEGER NOT NULL DEFAULT 0, lost INTEGER NOT NULL DEFAULT 0) STRICT;
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
, last_seen_at INTEGER NOT NULL DEFAULT 0, unlisted_at INTEGER, unreadable TEXT NOT NULL DEFAULT '', expected_at INTEGER, lasts_until INTEGER GENERATED ALWAYS AS (coalesce(expected_at, expires_at)) VIRTUAL) STRICT, WITHOUT ROWID;
CREATE TABLE published (
    one         INTEGER PRIMARY KEY CONSTRAINT published_single CHECK (one = 1),
    seq         INTEGER NOT NULL,              -- acknowledged by the stream
    hash        TEXT    NOT NULL,              -- of that row
    firm_seq    INTEGER NOT NULL,              -- noted ten minutes before a later note
    pending_seq INTEGER NOT NULL,              -- becomes firm_seq
    pending_at  INTEGER NOT NULL,
    CONSTRAINT published_order CHECK (0 <= firm_seq AND firm_seq <= pending_seq AND pending_seq <= seq)
) STRICT;
CREATE TABLE state_counts (
    state TEXT    PRIMARY KEY,
    n     INTEGER NOT NULL CONSTRAINT state_count_positive CHECK (n >= 0)
) STRICT, WITHOUT ROWID;
INSERT INTO "state_counts" ("state", "n") VALUES ('accepted', 0);
INSERT INTO "state_counts" ("state", "n") VALUES ('completed', 0);
INSERT INTO "state_counts" ("state", "n") VALUES ('delivered', 0);
INSERT INTO "state_counts" ("state", "n") VALUES ('failed', 0);
INSERT INTO "state_counts" ("state", "n") VALUES ('held', 0);
INSERT INTO "state_counts" ("state", "n") VALUES ('open', 0);
INSERT INTO "state_counts" ("state", "n") VALUES ('partial', 0);
INSERT INTO "state_counts" ("state", "n") VALUES ('refunded', 0);
INSERT INTO "state_counts" ("state", "n") VALUES ('rejected', 0);
INSERT INTO "state_counts" ("state", "n") VALUES ('resolved', 0);
INSERT INTO "state_counts" ("state", "n") VALUES ('review', 0);
INSERT INTO "state_counts" ("state", "n") VALUES ('sending', 0);
INSERT INTO "state_counts" ("state", "n") VALUES ('waiting', 0);
CREATE TABLE moves (
    proxy_id TEXT    NOT NULL,
    seen_at  INTEGER NOT NULL,
    since    INTEGER NOT NULL,                 -- the look before
    before   INTEGER NOT NULL,
    now      INTEGER NOT NULL,
    PRIMARY KEY (proxy_id, seen_at)
) STRICT, WITHOUT ROWID;
CREATE TABLE month_ends (
    until INTEGER PRIMARY KEY,                 -- when the next month begins
    seq   INTEGER NOT NULL,
    hash  TEXT    NOT NULL
) STRICT;
CREATE TABLE refused_contents (
    command_id   TEXT NOT NULL,
    content_hash TEXT NOT NULL,
    PRIMARY KEY (command_id, content_hash)
) STRICT, WITHOUT ROWID;
CREATE TABLE finished (
    command_id TEXT    PRIMARY KEY,
    revision   INTEGER NOT NULL,
    seq        INTEGER NOT NULL                -- the journal's row
) STRICT, WITHOUT ROWID;
CREATE TABLE bought (
    proxy_id   TEXT PRIMARY KEY,
    offer_code TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE schedule_pauses (
    schedule TEXT    PRIMARY KEY,
    since    INTEGER NOT NULL,
    until    INTEGER,                          -- null: until it is resumed
    by       TEXT    NOT NULL,
    reason   TEXT    NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE command_labels (
    name        TEXT    NOT NULL,
    value       TEXT    NOT NULL,
    accepted_at INTEGER NOT NULL,
    command_id  TEXT    NOT NULL,
    PRIMARY KEY (name, value, accepted_at, command_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE delivered (
    proxy_id  TEXT PRIMARY KEY,
    operation TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE net_charges (
    quarter INTEGER PRIMARY KEY,               -- since 1970 UTC
    cents   INTEGER NOT NULL
) STRICT;
CREATE TABLE schedule_calendars (
    schedule TEXT    PRIMARY KEY,
    cron     TEXT    NOT NULL,
    timezone TEXT    NOT NULL,
    since    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX journal_operation ON journal (operation) WHERE operation <> '';
CREATE TRIGGER journal_no_update BEFORE UPDATE ON journal
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: book a correction as a new fact'); END;
CREATE TRIGGER journal_no_delete BEFORE DELETE ON journal
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: history is never deleted'); END;
CREATE INDEX operations_live ON operations (accepted_at) WHERE live = 1;
CREATE INDEX operations_next ON operations (next_at) WHERE live = 1 AND next_at IS NOT NULL;
CREATE INDEX operations_order_no ON operations (order_no) WHERE order_no <> '';
CREATE TRIGGER operation_follows_the_arrows BEFORE UPDATE OF state ON operations
WHEN NOT EXISTS (SELECT 1 FROM arrows WHERE from_state = OLD.state AND to_state = NEW.state)
BEGIN SELECT RAISE(ABORT, 'an operation cannot go from this state to that one: see docs/state-machine.md'); END;
CREATE UNIQUE INDEX one_open_renewal_per_proxy ON lines (proxy_id) WHERE claim = 1;
CREATE INDEX lines_proxy ON lines (proxy_id);
CREATE TRIGGER transfers_no_delete BEFORE DELETE ON transfers
BEGIN SELECT RAISE(ABORT, 'a transfer is never deleted: a correction is a new entry'); END;
CREATE INDEX archived_operation ON archived (operation) WHERE operation <> '';
CREATE INDEX sweep_commands_planned ON sweep_commands (planned_at, schedule);
CREATE INDEX sweep_reviews_open ON sweep_reviews (operation) WHERE answered_at IS NULL;
CREATE INDEX proxies_gone ON proxies (expires_at) WHERE expires_at IS NOT NULL AND gone = 1;
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
CREATE TRIGGER journal_only_grows BEFORE INSERT ON journal
WHEN NEW.seq <= (SELECT max(seq) FROM journal)
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: a row goes behind the last one'); END;
CREATE TRIGGER transfers_no_replace BEFORE INSERT ON transfers
WHEN EXISTS (SELECT 1 FROM transfers WHERE seq = NEW.seq AND n = NEW.n)
BEGIN SELECT RAISE(ABORT, 'a transfer is never replaced: a correction is a new entry'); END;
CREATE TRIGGER operation_counted AFTER INSERT ON operations
BEGIN UPDATE state_counts SET n = n + 1 WHERE state = NEW.state; END;
CREATE TRIGGER operation_counted_anew AFTER UPDATE OF state ON operations WHEN OLD.state <> NEW.state
BEGIN
    UPDATE state_counts SET n = n - 1 WHERE state = OLD.state;
    UPDATE state_counts SET n = n + 1 WHERE state = NEW.state;
END;
CREATE INDEX lines_unresolved ON lines (operation) WHERE claim = 1 AND state = 'unresolved';
CREATE INDEX transfers_recorded ON transfers (order_no, kind, cents)
    WHERE order_no <> '' AND (kind = 'external' OR kind = 'funding');
CREATE INDEX operations_numberless ON operations (accepted_at) WHERE kind = 'order' AND order_no = '' AND state = 'resolved';
CREATE INDEX slots_held ON slots (plan) WHERE state = 'held';
CREATE INDEX sweep_commands_slot ON sweep_commands (schedule, slot_at);
CREATE INDEX replacements_schedule ON replacements (schedule, replaced_at);
CREATE INDEX slots_planned ON slots (seq) WHERE state = 'planned';
CREATE INDEX operations_due ON operations (kind, state, next_at, id) WHERE live = 1 AND next_at IS NOT NULL;
CREATE VIEW explained_moves AS
    SELECT m.proxy_id, m.seen_at, max(l.claim = 0) AS settled
    FROM moves m CROSS JOIN lines l ON l.proxy_id = m.proxy_id CROSS JOIN operations o ON o.id = l.operation
    WHERE ((l.state = 'succeeded' OR l.state = 'charged') AND l.settled_at >= m.since - 3600000000
            OR l.claim = 1 AND (o.first_sent_at IS NOT NULL OR o.ambiguous > 0))
        AND (l.observed_expires_at IS NULL OR l.observed_expires_at < m.now)
        AND coalesce(o.first_sent_at, 0) <= m.seen_at + 300000000
    GROUP BY m.proxy_id, m.seen_at;
CREATE INDEX journal_starts ON journal (seq) WHERE type = 'runner.started';
CREATE INDEX operations_accepted ON operations (kind, accepted_at);
CREATE INDEX operations_notable ON operations (state, accepted_at)
    WHERE state <> 'accepted' AND state <> 'sending' AND state <> 'completed' AND state <> 'delivered';
CREATE INDEX transfers_seldom ON transfers (kind, seq) WHERE kind <> 'charge';
CREATE INDEX journal_decisions ON journal (seq) WHERE type = 'command.released' OR type = 'command.cancelled' OR type = 'operation.resolved'
    OR type = 'proxy.retired' OR type = 'proxy.reinstated' OR type = 'proxy.revealed' OR type = 'account.paused' OR type = 'account.resumed'
    OR type = 'ledger.recorded' OR type = 'sweep.planned' OR type = 'sweep.finished' OR type = 'schedule.paused' OR type = 'schedule.resumed'
    OR type = 'dead.requeued' OR type = 'dead.dropped';
CREATE INDEX journal_reconciled ON journal (seq) WHERE type = 'ledger.reconciled';
CREATE INDEX proxies_unlisted ON proxies (seen_at) WHERE unlisted_at IS NOT NULL;
CREATE INDEX proxies_unreadable ON proxies (proxy_id) WHERE unreadable <> '';
CREATE TRIGGER transfers_no_update BEFORE UPDATE ON transfers
BEGIN SELECT RAISE(ABORT, 'a transfer is never changed: a correction is a new entry'); END;
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
CREATE INDEX journal_records ON journal (seq) WHERE type = 'ledger.recorded';
CREATE INDEX archived_records ON archived (seq) WHERE type = 'ledger.recorded';
CREATE INDEX journal_uncovered ON journal (seq) WHERE type = 'listing.uncovered';
CREATE INDEX proxies_lasting ON proxies (lasts_until) WHERE expires_at IS NOT NULL AND gone = 0;
CREATE INDEX rejections_at ON rejections (rejected_at);
CREATE INDEX proxies_expected ON proxies (expires_at) WHERE expected_at IS NOT NULL AND gone = 0;
CREATE VIEW v_days AS
    SELECT date(booked_at / 1000000, 'unixepoch') AS day, count(*) FILTER (WHERE kind = 'charge' OR kind = 'suspense') AS charges,
           coalesce(sum(cents) FILTER (WHERE kind = 'charge' OR kind = 'suspense'), 0) AS charged_cents,
           coalesce(sum(cents) FILTER (WHERE kind = 'refund'), 0) AS refunded_cents,
           coalesce(sum(CASE debit WHEN 'wallet' THEN cents ELSE -cents END) FILTER (WHERE kind = 'funding'), 0) AS funding_cents,
           coalesce(sum(CASE credit WHEN 'wallet' THEN cents ELSE -cents END) FILTER (WHERE kind = 'external'), 0) AS external_cents,
           sum(CASE WHEN debit = 'wallet' THEN cents WHEN credit = 'wallet' THEN -cents ELSE 0 END) AS wallet_change_cents
    FROM transfers GROUP BY 1;
COMMIT;
