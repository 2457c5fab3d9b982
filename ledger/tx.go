package ledger

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mattn/go-sqlite3"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
	"perennial/ledger/tables"
)

// MaxFactBytes limits the JSON of a fact, so that its event fits into a NATS message.
const MaxFactBytes = 900 << 10

// ErrStale is returned by AppendTo if the operation has changed since the version on which
// the facts were decided. Nothing was written.
var ErrStale = errors.New("the operation has changed since this was decided")

// ErrClaimed is returned by Append for a renewal of a proxy that another operation has
// reserved. Nothing was written.
var ErrClaimed = errors.New("another operation holds the right to renew it")

// ErrTooLarge is returned by Append for a fact larger than MaxFactBytes.
var ErrTooLarge = errors.New("fact is too large to be published")

// UnrecordableError reports a fact that can never be appended, because it is too large or
// breaks a rule of the database. Any other error of a write may be temporary.
type UnrecordableError struct {
	Fact string // type of the fact
	Err  error
}

func (e *UnrecordableError) Error() string { return e.Fact + " cannot be recorded: " + e.Err.Error() }

func (e *UnrecordableError) Unwrap() error { return e.Err }

// Tx is one caller's part of the writer's transaction.
type Tx struct {
	observations
	records

	w    *writer
	now  int64
	rows []chain.Row

	decided decision
	ended   []fact.Ref // commands that this request may have ended

	finishing bool // append command.finished for ended commands; not in a fold, whose rows include it
}

func newTx(w *writer, now int64) *Tx {
	return &Tx{observations: observations{w, now}, records: records{w}, w: w, now: now}
}

// observations changes the caches of the provider's proxies. No fact records these changes.
type observations struct {
	w   *writer
	now int64
}

type records struct{ w *writer }

// decision is the version of an operation on which the facts of one AppendTo were decided.
type decision struct {
	operation string
	version   int64
	proven    bool // a change of the operation matched this version
}

// Now returns the time of the transaction, in UTC.
func (t *Tx) Now() time.Time { return sqlite.FromMicros(t.now) }

func (t *Tx) setNow(us int64) { t.now, t.observations.now = us, us }

// LastSeq returns the sequence of the journal's last row, including rows of this
// transaction.
func (t *Tx) LastSeq() int64 { return t.w.head.Seq }

// Append adds facts to the journal, in order, and applies each of them.
func (t *Tx) Append(facts ...fact.Fact) error {
	for _, f := range facts {
		if err := t.append(f); err != nil {
			return err
		}
	}
	return nil
}

// Accept appends the acceptance of a command and the facts that follow from it. It returns
// the accepted operations in the order of the plan.
func (t *Tx) Accept(f fact.CommandAccepted, then ...fact.Fact) (made []fact.Operation, err error) {
	for _, p := range f.Operations {
		made = append(made, plannedAs(p, f.Presumed, f.CommandID, f.Kind, f.EstimateCents, t.now))
	}
	return made, t.Append(append([]fact.Fact{f}, then...)...)
}

// AppendTo appends facts that were decided on one version of an operation (Operation.Version). It
// returns the operation after the facts. It returns ErrStale if the version has changed.
func (t *Tx) AppendTo(operationID string, version int64, facts ...fact.Fact) (fact.Operation, error) {
	t.decided = decision{operation: operationID, version: version}
	err := t.Append(facts...)
	proven := t.decided.proven
	t.decided = decision{}
	if proven && err != nil {
		return fact.Operation{}, err
	}
	o, missing := t.Operation(operationID)
	switch {
	case missing != nil:
		return fact.Operation{}, fmt.Errorf("operation %s: %w", operationID, missing)
	case !proven && o.Version != version:
		// No fact changed the operation, or the first change failed.
		return fact.Operation{}, fmt.Errorf("operation %s: version %d, decided on %d: %w", operationID, o.Version, version, ErrStale)
	}
	return o, err
}

func (t *Tx) append(f fact.Fact) error {
	if err := t.w.mayAppend(); err != nil {
		return err
	}
	f, err := t.withMoney(f)
	if err != nil {
		return err
	}
	data, err := t.w.encode(f)
	if err != nil {
		return &UnrecordableError{Fact: f.FactType(), Err: err}
	}
	r := chain.Row{
		Seq: t.w.head.Seq + 1, Type: f.FactType(), Time: t.now, Operation: f.Subject(),
		Data: data, PrevHash: t.w.head.Hash,
	}
	t.w.buf, r.Hash = chain.Hash(t.w.buf, r)
	if err := t.insert(r); err != nil {
		return err
	}
	if err := t.w.readBooked(); err != nil {
		return err
	}
	if err := (projector{t}).project(r, f); err != nil {
		err = fmt.Errorf("apply %s %s: %w", r.Type, r.Operation, err)
		if failure, _ := errors.AsType[sqlite3.Error](err); failure.Code == sqlite3.ErrConstraint && !errors.Is(err, ErrClaimed) {
			return &UnrecordableError{Fact: r.Type, Err: err}
		}
		return err
	}
	t.w.head = r.Head()
	t.rows = append(t.rows, r)
	return t.noteEnding(f)
}

func (t *Tx) exec(query string, args ...any) error { return t.w.exec(query, args...) }

func (t observations) execFleet(query string, args ...any) error {
	n, err := t.w.changed(query, args)
	t.w.fleet = t.w.fleet || n > 0
	return err
}

func (t *Tx) queryRow(query string, args ...any) sqlite.Scanner { return t.w.QueryRow(query, args...) }

func (t *Tx) query(query string, args ...any) sqlite.Rows { return t.w.Query(query, args...) }

// Retired is Fleet.Retired within the transaction.
func (t *Tx) Retired(proxyID string) (bool, error) {
	return sqlite.Found(t.queryRow(`SELECT count(*) FROM retired WHERE proxy_id = ?`, proxyID))
}

// KnowsProxy reports whether the provider showed the proxy or an accepted renewal contains
// it.
func (t *Tx) KnowsProxy(proxyID string) (bool, error) {
	return sqlite.Found(t.queryRow(`SELECT EXISTS (SELECT 1 FROM proxies WHERE proxy_id = ?1) OR EXISTS (SELECT 1 FROM lines WHERE proxy_id = ?1)`, proxyID))
}

// Lines is Operations.Lines within the transaction.
func (t *Tx) Lines(operationID string) ([]tables.RenewalLine, error) {
	return tables.LinesOf(t.w, operationID)
}

// Claimant returns the operation that has reserved the proxy for a renewal. It returns "" if
// there is none.
func (t *Tx) Claimant(proxyID string) (string, error) {
	if err := t.w.writeLinesOf(proxyID); err != nil {
		return "", err
	}
	return tables.ClaimantOf(t.w, proxyID)
}

// SettledSince returns the proxies for which a renewal settled at or after an instant. A
// read that was requested earlier may show the old expiry.
func (t *Tx) SettledSince(proxyIDs []string, at time.Time) ([]string, error) {
	ids, err := json.Marshal(proxyIDs)
	if err != nil {
		return nil, err
	}
	return sqlite.Collect(t.query(`SELECT DISTINCT x.proxy_id FROM json_each(?) e CROSS JOIN lines x ON x.proxy_id = e.value WHERE x.settled_at >= ?`, string(ids), sqlite.Micros(at)), sqlite.Value[string])
}

// Operation reads one operation within the transaction.
func (t *Tx) Operation(id string) (fact.Operation, error) {
	o, err := t.operation(id)
	if err != nil {
		return fact.Operation{}, err
	}
	return o.Operation, nil
}

// Known looks up a command ID within the transaction. It uses one statement because it runs
// for every incoming command.
func (t *Tx) Known(commandID string) (k tables.Known, err error) {
	if t.w.held.accepted[commandID] {
		if err := t.w.writeProjected(); err != nil {
			return k, err
		}
	}
	err = t.queryRow(tables.KnownCommand, commandID).Scan(&k.Kind, &k.AcceptedHash, &k.RefusedHash)
	return k, err
}

// Gone marks a proxy as gone, because the provider does not know it. If the proxy had not
// expired, it also appends a fact.
func (t *Tx) Gone(proxyID string) error {
	var expires *time.Time
	err := t.w.QueryRow(`SELECT expires_at FROM proxies WHERE proxy_id = ? AND gone = 0`, proxyID).Scan(sqlite.NullAt(&expires))
	if err != nil {
		return sqlite.Optional(err) // without a row it is gone already
	}
	if err := t.execFleet(`UPDATE proxies SET gone = 1 WHERE proxy_id = ?`, proxyID); err != nil {
		return err
	}
	if expires != nil && sqlite.Micros(*expires) <= t.now {
		return nil
	}
	return t.Append(fact.ProxyGone{ProxyID: proxyID, ExpiresAt: expires})
}

// Pause reads one pause within the transaction. found is false if it is not in force.
func (t *Tx) Pause(scope, cause string) (p tables.Pause, found bool, err error) {
	p, err = tables.ScanPause(t.queryRow(`SELECT scope, cause, since, until, detail FROM pauses WHERE scope = ? AND cause = ?`, scope, cause))
	return p, err == nil, sqlite.Optional(err)
}

// SharedSlot returns the latest scheduled time that both schedules have. It returns ErrNotFound
// if there is none.
func (t *Tx) SharedSlot(first, second string) (at time.Time, err error) {
	err = t.queryRow(`SELECT a.slot_at FROM slots a JOIN slots b ON b.schedule = ? AND b.slot_at = a.slot_at WHERE a.schedule = ? ORDER BY a.slot_at DESC LIMIT 1`, first, second).
		Scan(sqlite.At(&at))
	return at, sqlite.NotFound(err)
}

// SchedulePaused is Sweeps.SchedulePaused within the transaction.
func (t *Tx) SchedulePaused(schedule string) (tables.SchedulePause, error) {
	return tables.PauseOf(t.w, schedule)
}

// HasSlot reports whether the schedule ran at this scheduled time, or counted it as missed.
func (t *Tx) HasSlot(schedule string, at time.Time) (bool, error) {
	return sqlite.Found(t.queryRow(`SELECT count(*) FROM slots WHERE schedule = ? AND slot_at = ?`, schedule, sqlite.Micros(at)))
}

// SweepReviews is Operations.SweepReviews within the transaction.
func (t *Tx) SweepReviews(operationID string) ([]string, error) {
	return tables.SweepReviewsOf(t.w, operationID)
}

// InSweepReview reports whether the proxy has an unanswered review for this expiry.
func (t *Tx) InSweepReview(proxyID string, expiresAt time.Time) (bool, error) {
	return sqlite.Found(t.queryRow(`SELECT count(*) FROM sweep_reviews WHERE proxy_id = ? AND abs(expires_at - ?)`+tables.IsNoMove+`AND answered_at IS NULL`,
		proxyID, sqlite.Micros(expiresAt)))
}

// LastEnding returns the last operation that ended without renewing the proxy. It returns
// ErrNotFound if there is none.
func (t *Tx) LastEnding(proxyID string) (fact.Ref, error) {
	last, err := tables.Endings(t.w, proxyID, 1)
	if err != nil || len(last) == 0 {
		return fact.Ref{}, cmp.Or(err, ErrNotFound)
	}
	return last[0], nil
}

// LastPaidBy returns the last operation that renewed the proxy. It returns ErrNotFound if there
// is none.
func (t *Tx) LastPaidBy(proxyID string) (fact.Ref, error) {
	return sqlite.One(tables.ScanRef, t.queryRow(`SELECT l.operation, o.command_id, o.trace_id FROM lines l JOIN operations o ON o.id = l.operation
		WHERE l.proxy_id = ? AND (l.state = 'succeeded' OR l.state = 'charged') AND l.settled_at IS NOT NULL ORDER BY l.settled_at DESC LIMIT 1`, proxyID))
}

// HeldNow lists the runs of a schedule whose plan needs approval and whose scheduled time is
// not before an instant, newest first.
func (t *Tx) HeldNow(schedule string, since time.Time) ([]tables.Slot, error) {
	return sqlite.Collect(t.query(`SELECT `+tables.SlotColumns+` FROM slots WHERE schedule = ? AND slot_at >= ? AND state = 'held' ORDER BY slot_at DESC`, schedule, sqlite.Micros(since)), tables.ScanSlot)
}

// HeldSlots is Sweeps.HeldSlots within the transaction.
func (t *Tx) HeldSlots(plan string) ([]tables.Slot, error) {
	return tables.HeldSlots(t.w, plan)
}

// KeepListing stores the progress of the listing, so that a restarted runner continues
// there.
func (t observations) KeepListing(x tables.Listing) error {
	var finished int64
	if !x.Finished.IsZero() {
		finished = sqlite.Micros(x.Finished)
	}
	return t.w.exec(`INSERT INTO listing (one, pass, began_at, page_size, page_token, finished_at, took, nameless, known, lost) VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (one) DO UPDATE SET pass = excluded.pass, began_at = excluded.began_at, page_size = excluded.page_size,
		page_token = excluded.page_token, finished_at = excluded.finished_at, took = excluded.took,
		nameless = excluded.nameless, known = excluded.known, lost = excluded.lost`,
		x.Pass, sqlite.Micros(x.Began), x.Size, x.Token, finished, int64(x.Took/time.Microsecond), x.Nameless, x.Known, x.Lost)
}

// ForgetSeen marks every proxy for reading and listing again, because another runner has
// changed proxies that this one saw.
func (t observations) ForgetSeen() error {
	return errors.Join(t.StaleAll(), t.w.exec(`UPDATE listing SET finished_at = 0, page_size = 0, page_token = ''`))
}

// ForgetMoved forgets the expiries that changed so far, because an operator's record of spending
// outside Perennial explains them. A change that a pending renewal may explain stays, because it
// was not shown to the operator.
func (t observations) ForgetMoved() error {
	return t.w.exec(`DELETE FROM moves WHERE NOT EXISTS (
		SELECT 1 FROM explained_moves e WHERE e.proxy_id = moves.proxy_id AND e.seen_at = moves.seen_at AND e.settled = 0)`)
}

// SeenExpiry is Fleet.SeenExpiry within the transaction.
func (t observations) SeenExpiry(proxyID string) (expires *time.Time, known bool, err error) {
	if err := t.w.writeLinesOf(proxyID); err != nil {
		return nil, false, err
	}
	return tables.ExpiryOf(t.w, proxyID)
}

// Observe caches what a read of the provider showed; the journal is unchanged. pass is the
// number of the listing pass that saw the proxies. It is 0 for a single read, which shows that
// a proxy exists but not that it is listed.
func (t observations) Observe(pass int64, proxies ...tables.Proxy) error {
	for _, p := range proxies {
		values := []any{
			p.ProxyID, p.Status, p.IPType, p.Protocol, p.CountryCode, p.Region, p.LineName,
			sqlite.NullInstant(p.StartsAt), sqlite.NullInstant(p.ExpiresAt), sqlite.Micros(p.SeenAt), pass, sqlite.NullInstant(p.UnlistedAt), p.Unreadable, sqlite.NullInstant(p.ExpectedExpiresAt),
		}
		same, err := t.w.changed(seeSame, values)
		if err == nil && same == 0 {
			err = t.execFleet(seeOther, values...)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ObserveUnreadable stores that a listing pass showed a proxy whose entry could not be
// read, and why. The proxy counts as listed, and its earlier data stays.
func (t observations) ObserveUnreadable(pass int64, id, why string) error {
	return t.execFleet(`INSERT INTO proxies (proxy_id, status, ip_type, protocol, country_code, region, line_name, seen_at, pass, unreadable)
		VALUES (?, '', '', '', '', '', '', 0, ?, ?)
		ON CONFLICT (proxy_id) DO UPDATE SET pass = max(pass, excluded.pass), gone = 0, unlisted_at = NULL, unreadable = excluded.unreadable`, id, pass, why)
}

// FinishPass marks each proxy that a complete pass did not show. It marks the proxy as gone if it
// has expired. Otherwise it marks the proxy as unlisted. Absence proves nothing else about a
// proxy (trap 66).
func (t observations) FinishPass(pass int64, began time.Time) error {
	return errors.Join(
		t.execFleet(`UPDATE proxies SET gone = 1 WHERE `+notShown+` AND seen_at > 0
			AND proxy_id IN (SELECT proxy_id `+tables.AsShown+` AND lasts_until <= ?3 UNION ALL SELECT proxy_id `+tables.AlreadyRenewed+` AND expires_at <= ?3)`, pass, sqlite.Micros(began), t.now),
		t.execFleet(`UPDATE proxies SET unlisted_at = ?3 WHERE `+notShown+` AND unlisted_at IS NULL`, pass, sqlite.Micros(began), t.now))
}

// FinishCopy marks as gone the proxies that another runner's table does not contain.
func (t observations) FinishCopy(pass int64, began time.Time) error {
	return t.execFleet(`UPDATE proxies SET gone = 1 WHERE `+notShown, pass, sqlite.Micros(began))
}

// CountLost returns how many living proxies are known, and how many of them a complete pass
// did not show, or showed with an unreadable entry.
func (t observations) CountLost(pass int64, began time.Time) (known, lost int, err error) {
	err = t.w.QueryRow(`SELECT count(*), count(*) FILTER (WHERE unreadable <> '' OR `+notShown+`) FROM proxies
		WHERE gone = 0 AND (expires_at IS NULL OR expires_at > ?3) AND NOT EXISTS (SELECT 1 FROM retired r WHERE r.proxy_id = proxies.proxy_id)`,
		pass, sqlite.Micros(began), t.now+int64(lostGrace/time.Microsecond)).Scan(&known, &lost)
	return known, lost, err
}

// Stale marks the data of a proxy as out of date, for example after a renewal: the proxy must be
// read again before it is paid for. Stale also stores the expected new expiry if exactly one
// renewal extended the expiry that was last read. That renewal must have settled before the
// expiry, because the API does not say how a renewal changes an expired proxy.
func (t observations) Stale(proxyID string) error {
	if err := t.w.writeLinesOf(proxyID); err != nil {
		return err
	}
	return t.execFleet(stale, proxyID)
}

// Most reads show what is stored already. SQLite rewrites an index entry whenever a statement
// assigns its column, even if the value is unchanged. seeSame assigns no indexed column, so
// that listing an unchanged fleet takes a quarter of the time. If a value differs, seeSame
// changes no row, and seeOther must follow.
const (
	seeSame = `UPDATE proxies SET seen_at = ?10, pass = max(pass, ?11) WHERE proxy_id = ?1 AND status = ?2 AND ip_type = ?3 AND protocol = ?4
		AND country_code = ?5 AND region = ?6 AND line_name = ?7 AND starts_at IS ?8 AND expires_at IS ?9 AND (seen_at > 0) = (?10 > 0) AND gone = 0
		AND (?11 <= 0 OR unlisted_at IS ?12) AND unreadable = ?13 AND expected_at IS ?14`
	seeOther = `INSERT INTO proxies (proxy_id, status, ip_type, protocol, country_code, region, line_name, starts_at, expires_at, seen_at, pass,
		unlisted_at, unreadable, expected_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (proxy_id) DO UPDATE SET status = excluded.status, ip_type = excluded.ip_type, protocol = excluded.protocol,
		country_code = excluded.country_code, region = excluded.region, line_name = excluded.line_name, starts_at = excluded.starts_at,
		expires_at = excluded.expires_at, seen_at = excluded.seen_at, pass = max(pass, excluded.pass), gone = 0,
		unlisted_at = CASE WHEN excluded.pass > 0 THEN excluded.unlisted_at ELSE unlisted_at END, unreadable = excluded.unreadable,
		expected_at = excluded.expected_at`
)

// notShown selects the proxies that a complete listing pass did not show, except proxies first
// seen after the pass started. A single read of an unlisted proxy does not make it listed.
const notShown = `gone = 0 AND pass < ?1 AND (seen_at < ?2 OR unlisted_at IS NOT NULL)`

// lostGrace is how long before its expiry a missing proxy stops counting as lost, because the
// provider's clock may be fast.
const lostGrace = 10 * time.Minute

const stale = `UPDATE proxies SET last_seen_at = max(last_seen_at, seen_at), seen_at = 0, expected_at = (
		SELECT CASE WHEN count(*) = 1 AND min(l.observed_expires_at) > min(l.settled_at) THEN proxies.expires_at + min(l.duration_days) * 86400000000 END
		FROM lines l WHERE l.proxy_id = proxies.proxy_id AND l.state IN ('succeeded', 'charged') AND abs(l.observed_expires_at - proxies.expires_at)` + tables.IsNoMove + `)
	WHERE proxy_id = ?`

// LastTime returns the time of the last row. It returns 1970 if there is no row.
func (t records) LastTime() (at time.Time, err error) {
	err = t.w.QueryRow(`SELECT coalesce((SELECT time FROM journal ORDER BY seq DESC LIMIT 1), (SELECT time FROM base), 0)`).Scan(sqlite.At(&at))
	return at, err
}

// Record is a ledger.recorded fact with its row. For an archived record, only the data for the
// books is known, not the labels.
type Record struct {
	fact.LedgerRecorded
	Seq int64
	At  time.Time
}

// RecordsOf returns the records with an ID: one, or one for each line of a corrected answer.
func (t records) RecordsOf(id string) ([]Record, error) { return t.records(0, id) }

// RecordAt returns the record in a journal row. It returns ErrNotFound if there is none.
func (t records) RecordAt(seq int64) (r Record, err error) {
	all, err := t.records(seq, "")
	if err != nil || len(all) == 0 {
		return r, cmp.Or(err, ErrNotFound)
	}
	return all[0], nil
}

// RecordLike reads the last record after an instant with the same movement, amount, operation,
// order, proxy, person and reason. It returns ErrNotFound if there is none.
func (t records) RecordLike(f fact.LedgerRecorded, after time.Time) (r Record, err error) {
	seqs, err := sqlite.Collect(t.w.Query(`SELECT seq FROM journal WHERE type = 'ledger.recorded' AND time > ? AND data ->> '$.by' = ? AND data ->> '$.reason' = ?
		ORDER BY seq DESC`, sqlite.Micros(after), f.By, f.Reason), sqlite.Value[int64])
	for _, seq := range seqs {
		r, err := t.RecordAt(seq)
		if err != nil || r.Movement == f.Movement && r.AmountCents == f.AmountCents && r.OperationID == f.OperationID && r.OrderNo == f.OrderNo && r.ProxyID == f.ProxyID {
			return r, err
		}
	}
	return r, errors.Join(err, ErrNotFound)
}

// Corrected returns how many cents of a row's amount were taken back by records of this movement,
// for all lines, or for the line of one proxy. Cents that later records restored are subtracted.
// Corrections of corrections count.
func (t records) Corrected(seq int64, movement, proxyID string) (cents int64, err error) {
	err = t.w.QueryRow(`WITH RECURSIVE corrections (seq) AS (
			SELECT r.seq FROM (`+tables.RecordRows+`) r WHERE r.data ->> '$.corrects_seq' = ?1
			UNION SELECT r.seq FROM corrections CROSS JOIN (`+tables.RecordRows+`) r ON r.data ->> '$.corrects_seq' = corrections.seq)
		SELECT coalesce(sum(CASE WHEN (t.debit = 'wallet') = ?2 THEN t.cents ELSE -t.cents END), 0)
		FROM corrections CROSS JOIN transfers t ON t.seq = corrections.seq WHERE ?3 IN ('', t.proxy_id)`, seq, movement == fact.MovementTopUp || movement == fact.MovementRefund, proxyID).Scan(&cents)
	return cents, err
}

func (t records) records(seq int64, id string) ([]Record, error) {
	return sqlite.Collect(t.w.Query(`SELECT r.seq, r.time, t.kind, t.debit = 'wallet', t.cents, t.operation, t.order_no, t.proxy_id, coalesce(r.data ->> '$.by', ''),
		coalesce(r.data ->> '$.reason', ''), coalesce(r.data ->> '$.id', substr(r.operation, 8), ''), coalesce(r.data ->> '$.corrects_seq', 0)
		FROM (`+tables.RecordRows+`) r JOIN transfers t ON t.seq = r.seq
		WHERE r.seq = ?1 OR ?1 = 0 AND (r.data ->> '$.id' = ?2 OR r.operation = ?3) ORDER BY r.seq`, seq, id, fact.LedgerRecorded{ID: id}.Subject()), scanRecord)
}

func scanRecord(s sqlite.Scanner) (r Record, err error) {
	var in int64
	err = s.Scan(&r.Seq, sqlite.At(&r.At), &r.Movement, &in, &r.AmountCents, &r.OperationID, &r.OrderNo, &r.ProxyID, &r.By, &r.Reason, &r.ID, &r.Corrects)
	if account := r.Movement; account == "external" || account == "funding" {
		r.Account, r.Movement = account, fact.MovementExternal
		if in == 1 {
			r.Movement = fact.MovementTopUp
		}
	}
	return r, err
}

// AnswerAt reads the answer to a review in a journal row. It returns ErrNotFound if the row
// is not an answer or was archived.
func (t records) AnswerAt(seq int64) (f fact.OperationResolved, err error) {
	f, err = sqlite.One(tables.ScanFact[fact.OperationResolved], t.w.QueryRow(`SELECT data FROM journal WHERE seq = ? AND type = 'operation.resolved'`, seq))
	if err != nil && !errors.Is(err, ErrNotFound) {
		err = fmt.Errorf("row %d: %w", seq, err)
	}
	return f, err
}
