package tables

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"perennial/ledger/fact"
	"perennial/ledger/failpoint"
	"perennial/ledger/sqlite"
)

// OperationColumns are the columns that ScanOperation reads.
const OperationColumns = `id, command_id, kind, chunk, generation, idempotency_key, state, version, reason, code, trace_id, app_id,
	attempts, ambiguous, coalesce(body_seq, 0), first_sent_at, first_ambiguous_at, next_at, progress_at, order_no,
	expected_count, delivered_count, estimate_cents, charged_cents, refunded_cents, accepted_at, updated_at,
	read_at, unread_since`

// ScanOperation reads a row of OperationColumns.
var ScanOperation = sqlite.Into(func(o *fact.Operation) []any {
	return []any{
		&o.ID, &o.CommandID, &o.Kind, &o.Chunk, &o.Generation, &o.Key, &o.State, &o.Version, &o.Reason, &o.Code, &o.TraceID, &o.AppID,
		&o.Attempts, &o.Ambiguous, &o.BodySeq, sqlite.NullAt(&o.FirstSentAt), sqlite.NullAt(&o.FirstAmbiguousAt), sqlite.NullAt(&o.NextAt),
		sqlite.NullAt(&o.ProgressAt), &o.OrderNo, &o.ExpectedCount, &o.DeliveredCount, &o.EstimateCents, &o.ChargedCents, &o.RefundedCents,
		sqlite.At(&o.AcceptedAt), sqlite.At(&o.UpdatedAt), sqlite.NullAt(&o.ReadAt), sqlite.NullAt(&o.UnreadSince),
	}
})

// Operation returns one operation. It returns sqlite.ErrNone for an unknown id.
func (l *Operations) Operation(ctx context.Context, id string) (fact.Operation, error) {
	return sqlite.One(ScanOperation, l.row(ctx, `SELECT `+OperationColumns+` FROM operations WHERE id = ?`, id))
}

// OperationsOfCommand lists a command's operations in the order of acceptance. Its
// parameters are the bounds of the operation IDs and the command ID.
const OperationsOfCommand = `SELECT ` + OperationColumns + ` FROM operations
	WHERE id > ? AND id < ? AND command_id = ? ORDER BY accepted_at, chunk, generation`

// OperationsOf lists a command's operations in the order of acceptance. Operation IDs start
// with the command ID, so the primary key is used.
func (l *Operations) OperationsOf(ctx context.Context, commandID string) ([]fact.Operation, error) {
	return sqlite.Collect(l.query(ctx, OperationsOfCommand, commandID+"/", commandID+"0", commandID), ScanOperation)
}

// OperationsIn lists up to limit unfinished operations in a state, oldest first.
func (l *Operations) OperationsIn(ctx context.Context, state fact.State, limit int) ([]fact.Operation, error) {
	return sqlite.Collect(l.query(ctx, `SELECT `+OperationColumns+` FROM operations WHERE state = +? AND live = 1 ORDER BY accepted_at, id LIMIT +?`,
		string(state), limit), ScanOperation)
}

// Left selects a page of the operations in State that an earlier runner did not finish, oldest
// first.
type Left struct {
	State fact.State     // sending or accepted
	Until int64          // the last row before this runner started; later attempts and commands are not left over
	After fact.Operation // the last operation of the previous page; zero for the first page
	Limit int
}

// Left reads a page of the operations that an earlier runner left unfinished.
func (l *Operations) Left(ctx context.Context, x Left) ([]fact.Operation, error) {
	since := int64(0)
	if x.After.ID != "" {
		since = sqlite.Micros(x.After.AcceptedAt)
	}
	return sqlite.Collect(l.query(ctx, `SELECT `+OperationColumns+` FROM operations o WHERE live = 1 AND state = +?1 AND (accepted_at, id) > (?2, ?3)
		AND CASE state WHEN 'sending' THEN body_seq <= ?4 ELSE EXISTS (SELECT 1 FROM commands c WHERE c.id = o.command_id AND c.accepted_seq <= ?4) END
		ORDER BY accepted_at, id LIMIT +?5`, string(x.State), since, x.After.ID, x.Until, x.Limit), ScanOperation)
}

// Due lists unfinished operations of one kind and state whose next step is due. The operation
// that has been due for the longest time comes first. Kinds are queried separately, so that a
// paused kind with many due operations does not hide another kind.
func (l *Operations) Due(ctx context.Context, state fact.State, kind fact.Kind, now time.Time, limit int) ([]fact.Operation, error) {
	return sqlite.Collect(l.query(ctx, `SELECT `+OperationColumns+` FROM operations
		WHERE kind = +? AND state = +? AND live = 1 AND next_at IS NOT NULL AND next_at <= ?
		ORDER BY next_at, id LIMIT +?`, string(kind), string(state), sqlite.Micros(now), limit), ScanOperation)
}

// AnyDue reports whether any operation is due.
func (l *Operations) AnyDue(ctx context.Context, now time.Time) (bool, error) {
	return sqlite.Found(l.row(ctx, `SELECT EXISTS (SELECT 1 FROM operations
		WHERE live = 1 AND next_at IS NOT NULL AND next_at <= ?)`, sqlite.Micros(now)))
}

// NextAfter returns the earliest instant after now at which an operation becomes due. It returns
// nil if there is none.
func (l *Operations) NextAfter(ctx context.Context, now time.Time) (next *time.Time, err error) {
	err = l.row(ctx, `SELECT min(next_at) FROM operations
		WHERE live = 1 AND next_at IS NOT NULL AND next_at > ?`, sqlite.Micros(now)).Scan(sqlite.NullAt(&next))
	return next, err
}

// Unfinished lists up to limit unfinished operations, newest first.
func (l *Operations) Unfinished(ctx context.Context, limit int) ([]fact.Operation, error) {
	return sqlite.Collect(l.query(ctx, `SELECT `+OperationColumns+` FROM operations
		WHERE live = 1 ORDER BY accepted_at DESC, id LIMIT +?`, limit), ScanOperation)
}

// StateCounts returns the number of operations in each state. States without operations are
// left out.
func (l *Operations) StateCounts(ctx context.Context) (map[fact.State]int64, error) {
	return sqlite.Pairs[fact.State, int64](l.query(ctx, `SELECT state, n FROM state_counts WHERE n > 0`))
}

// Command is an accepted command.
type Command struct {
	ID          string
	Kind        fact.Kind
	ContentHash string
	AcceptedSeq int64
	AcceptedAt  time.Time
}

var scanCommand = sqlite.Into(func(c *Command) []any {
	return []any{&c.ID, &c.Kind, &c.ContentHash, &c.AcceptedSeq, sqlite.At(&c.AcceptedAt)}
})

// Command returns an accepted command. It returns sqlite.ErrNone for an unknown id.
func (l *Operations) Command(ctx context.Context, id string) (Command, error) {
	return sqlite.One(scanCommand, l.row(ctx, `SELECT id, kind, content_hash, accepted_seq, accepted_at FROM commands WHERE id = ?`, id))
}

// Known is what the ledger knows about a command ID. AcceptedHash is the hash of the accepted
// content. RefusedHash is the hash of the last content that was refused before the acceptance. A
// hash is "" if there is no such content.
type Known struct {
	Kind         fact.Kind
	AcceptedHash string
	RefusedHash  string
}

// KnownCommand selects the fields of Known by command ID.
const KnownCommand = `SELECT coalesce(c.kind, ''), coalesce(c.content_hash, ''), coalesce(r.content_hash, '')
	FROM (SELECT ? AS id) x LEFT JOIN commands c ON c.id = x.id LEFT JOIN rejections r ON r.id = x.id`

// Acceptance reads the fact that accepted a command, with its whole content. It returns
// sqlite.ErrNone if no fact did. An archived fact is read from its archive.
func (l *Operations) Acceptance(ctx context.Context, commandID string) (fact.CommandAccepted, error) {
	var fact fact.CommandAccepted
	var data string
	var seq int64
	err := l.row(ctx, `SELECT coalesce(j.data, ''), c.accepted_seq FROM commands c LEFT JOIN journal j ON j.seq = c.accepted_seq
		WHERE c.id = ?`, commandID).Scan(&data, &seq)
	if err != nil {
		return fact, sqlite.NotFound(err)
	}
	if data == "" {
		row, err := l.journal.Row(ctx, seq)
		if err != nil {
			return fact, fmt.Errorf("what command %s asked for: %w", commandID, err)
		}
		data = row.Data
	}
	if err := json.Unmarshal([]byte(data), &fact); err != nil {
		return fact, fmt.Errorf("read acceptance of %s: %w", commandID, err)
	}
	return fact, nil
}

// Sent reads the operation.sending fact in a journal row: the key, the body and the time.
func (l *Operations) Sent(ctx context.Context, seq int64) (fact.OperationSending, error) {
	var fact fact.OperationSending
	row, err := l.journal.Row(ctx, seq)
	if err != nil {
		return fact, err
	}
	if err := json.Unmarshal([]byte(row.Data), &fact); err != nil {
		return fact, fmt.Errorf("read the body at journal row %d: %w", seq, err)
	}
	return fact, nil
}

// Rejection says why a command was refused on arrival.
type Rejection struct {
	CommandID, ContentHash, Code, Reason string
	At                                   time.Time
}

const rejectionColumns = `id, content_hash, code, reason, rejected_at`

var scanRejection = sqlite.Into(func(r *Rejection) []any {
	return []any{&r.CommandID, &r.ContentHash, &r.Code, &r.Reason, sqlite.At(&r.At)}
})

// Rejections lists up to limit commands that were refused since an instant and not accepted
// afterwards, newest first.
func (l *Operations) Rejections(ctx context.Context, since time.Time, limit int) ([]Rejection, error) {
	return sqlite.Collect(l.query(ctx, `SELECT `+rejectionColumns+` FROM rejections r
		WHERE rejected_at >= ? AND NOT EXISTS (SELECT 1 FROM commands c WHERE c.id = r.id) ORDER BY rejected_at DESC, id LIMIT +?`, sqlite.Micros(since), limit), scanRejection)
}

// CountRefused counts the commands that Rejections lists.
func (l *Operations) CountRefused(ctx context.Context, since time.Time) (int64, error) {
	return sqlite.Value[int64](l.row(ctx, `SELECT count(*) FROM rejections r
		WHERE rejected_at >= ? AND NOT EXISTS (SELECT 1 FROM commands c WHERE c.id = r.id)`, sqlite.Micros(since)))
}

// Rejection returns why a command was refused. It returns sqlite.ErrNone if the command was not
// refused.
func (l *Operations) Rejection(ctx context.Context, commandID string) (Rejection, error) {
	return sqlite.One(scanRejection, l.row(ctx, `SELECT `+rejectionColumns+` FROM rejections WHERE id = ?`, commandID))
}

// CommandEnded reports whether a command was refused, or was accepted and has nothing in
// progress or in review. Publishing the same content again has no effect.
func (l *Operations) CommandEnded(ctx context.Context, id string) (bool, error) {
	return sqlite.Found(l.row(ctx, `SELECT (EXISTS (SELECT 1 FROM commands WHERE id = ?1)
		OR EXISTS (SELECT 1 FROM rejections WHERE id = ?1)) AND NOT EXISTS (
		SELECT 1 FROM operations o WHERE o.id > ?1 || '/' AND o.id < ?1 || '0' AND o.command_id = ?1
			AND (o.live = 1 OR EXISTS (SELECT 1 FROM lines x WHERE x.operation = o.id AND x.claim = 1)))`, id))
}

// Accepted is one accepted command in a list.
type Accepted struct {
	Seq       int64
	CommandID string
	Kind      fact.Kind
	Labels    map[string]string
}

// AcceptedBefore lists up to limit commands that were accepted in rows before a journal
// sequence, newest first. A sequence of 0 starts with the newest command. Archived commands
// are left out.
func (l *Operations) AcceptedBefore(ctx context.Context, before int64, limit int) ([]Accepted, error) {
	if before <= 0 {
		before = 1 << 62
	}
	return sqlite.Collect(l.query(ctx, `SELECT seq, operation, data ->> '$.kind', coalesce(data -> '$.labels', '{}') FROM journal
		WHERE seq < ? AND type = 'command.accepted' ORDER BY seq DESC LIMIT +?`, before, limit), func(s sqlite.Scanner) (a Accepted, err error) {
		var labels string
		if err := s.Scan(&a.Seq, &a.CommandID, &a.Kind, &labels); err != nil {
			return a, err
		}
		return a, json.Unmarshal([]byte(labels), &a.Labels)
	})
}

const (
	// LookedMost limits how many operations one page looks through. A page for a label or a
	// schedule looks through at most this many commands.
	LookedMost = 20_000
	// wholeCommand limits how many operations of one command a page contains. A page may exceed
	// its own limit to end with a whole command.
	wholeCommand = 2_000
)

// OperationsQuery selects operations. Empty fields do not filter. Limit must be set.
type OperationsQuery struct {
	State    fact.State
	Kind     fact.Kind
	Name     string // a label's name; Value is its value
	Value    string
	Schedule string    // only commands that this schedule planned
	From     time.Time // accepted at or after; with Schedule and no label: scheduled at or after
	Until    time.Time // before this instant
	Before   Cursor
	Limit    int
}

// Cursor is the end of a page; the zero Cursor is the start of the list.
type Cursor struct {
	at int64
	id string // a command ID, or the rowid of an operation
}

// String returns the cursor for use in a URL. It returns "" for the zero cursor.
func (c Cursor) String() string {
	if c == (Cursor{}) {
		return ""
	}
	return strconv.FormatInt(c.at, 10) + "." + c.id
}

// CursorOf parses the result of String. Any other text gives the zero cursor.
func CursorOf(text string) Cursor {
	at, id, ok := strings.Cut(text, ".")
	us, err := strconv.ParseInt(at, 10, 64)
	if !ok || err != nil {
		return Cursor{}
	}
	return Cursor{us, id}
}

// At returns the time of the last entry of the page.
func (c Cursor) At() time.Time { return sqlite.FromMicros(c.at) }

// OperationsPage is one page of a list. Next is zero after the last page. A page that has a
// Next may still be short: the query looks through a limited number of operations.
type OperationsPage struct {
	Operations []fact.Operation
	Next       Cursor
}

// way describes how a query reads operations through an index, newest first. The keys of the
// index are an instant and a tie-breaker: an operation's rowid or a command ID.
type way struct {
	bound    string // query for the last key that a page looks at; "": every key matches
	keys     string // query for the matching keys between two keys, with their IDs
	commands bool   // the keys are commands, not operations
}

// Parameters: ?1, ?2 are the key before which a page starts, ?3 the first instant, ?4 the
// state, ?5 the kind, ?6 the schedule, ?7, ?8 the label. In bound queries, ?9 is the number
// of keys to pass over. In key queries, ?9, ?10 are the last key and ?11 is the limit.
const (
	listedKey  = ` AND (o.accepted_at, o.rowid) < (?1, CAST(?2 AS INTEGER)) AND o.accepted_at >= ?3`
	listedLast = ` ORDER BY o.accepted_at DESC, o.rowid DESC LIMIT 1 OFFSET ?9`
	listedFit  = ` AND (o.accepted_at, o.rowid) >= (?9, CAST(?10 AS INTEGER)) AND (?4 = '' OR o.state = +?4) AND (?5 = '' OR o.kind = +?5)
		ORDER BY o.accepted_at DESC, o.rowid DESC LIMIT +?11`

	// isNotable is the condition of the index operations_notable.
	isNotable = `o.state <> 'accepted' AND o.state <> 'sending' AND o.state <> 'completed' AND o.state <> 'delivered'`

	hasOperation = ` AND EXISTS (SELECT 1 FROM operations o WHERE o.id > x.command_id || '/' AND o.id < x.command_id || '0' AND o.command_id = x.command_id
		AND (?4 = '' OR o.state = +?4) AND (?5 = '' OR o.kind = +?5))`
)

const (
	kindBound    = `SELECT o.accepted_at, CAST(o.rowid AS TEXT) FROM operations o WHERE o.kind = +?5` + listedKey + listedLast
	kindKeys     = `SELECT o.accepted_at, CAST(o.rowid AS TEXT), o.id FROM operations o WHERE o.kind = +?5` + listedKey + listedFit
	notableBound = `SELECT o.accepted_at, CAST(o.rowid AS TEXT) FROM operations o WHERE o.state = +?4 AND ` + isNotable + listedKey + listedLast
	notableKeys  = `SELECT o.accepted_at, CAST(o.rowid AS TEXT), o.id FROM operations o WHERE o.state = +?4 AND ` + isNotable + listedKey + listedFit
	liveBound    = `SELECT o.accepted_at, CAST(o.rowid AS TEXT) FROM operations o WHERE o.live = 1` + listedKey + listedLast
	liveKeys     = `SELECT o.accepted_at, CAST(o.rowid AS TEXT), o.id FROM operations o WHERE o.live = 1` + listedKey + listedFit
	allKeys      = `SELECT o.accepted_at, o.rowid, o.id FROM operations o WHERE o.kind = 'order'` + listedKey + `
		UNION ALL SELECT o.accepted_at, o.rowid, o.id FROM operations o WHERE o.kind = 'renewal'` + listedKey + `
		ORDER BY 1 DESC, 2 DESC LIMIT +?11`

	ofLabel    = `x.name = ?7 AND x.value = ?8 AND (x.accepted_at, x.command_id) < (?1, ?2) AND x.accepted_at >= ?3`
	labelBound = `SELECT x.accepted_at, x.command_id FROM command_labels x WHERE ` + ofLabel + ` ORDER BY x.accepted_at DESC, x.command_id DESC LIMIT 1 OFFSET ?9`
	labelKeys  = `SELECT x.accepted_at, x.command_id, x.command_id FROM command_labels x WHERE ` + ofLabel + ` AND (x.accepted_at, x.command_id) >= (?9, ?10)` + hasOperation + `
		AND (?6 = '' OR EXISTS (SELECT 1 FROM sweep_commands w WHERE w.command_id = x.command_id AND w.schedule = ?6))
		ORDER BY x.accepted_at DESC, x.command_id DESC LIMIT +?11`

	ofSchedule = `x.schedule = ?6 AND (x.slot_at, x.command_id) < (?1, ?2) AND x.slot_at >= ?3`
	sweptBound = `SELECT x.slot_at, x.command_id FROM sweep_commands x WHERE ` + ofSchedule + ` ORDER BY x.slot_at DESC, x.command_id DESC LIMIT 1 OFFSET ?9`
	sweptKeys  = `SELECT x.slot_at, x.command_id, x.command_id FROM sweep_commands x WHERE ` + ofSchedule + ` AND (x.slot_at, x.command_id) >= (?9, ?10)` + hasOperation + `
		ORDER BY x.slot_at DESC, x.command_id DESC LIMIT +?11`
)

// The result is the way to read that looks through the fewest operations. q.Kind may be set.
func (q *OperationsQuery) way() way {
	switch {
	case q.Kind != "":
	case q.State == fact.StateCompleted:
		q.Kind = fact.KindRenewal
	case q.State == fact.StateDelivered:
		q.Kind = fact.KindOrder
	}
	switch {
	case q.Name != "":
		return way{labelBound, labelKeys, true}
	case q.Schedule != "":
		return way{sweptBound, sweptKeys, true}
	case q.State == fact.StateAccepted || q.State == fact.StateSending:
		return way{liveBound, liveKeys, false}
	case q.State != "" && q.State != fact.StateCompleted && q.State != fact.StateDelivered:
		return way{notableBound, notableKeys, false}
	case q.Kind != "":
		return way{kindBound, kindKeys, false}
	}
	return way{"", allKeys, false}
}

type listKey struct {
	Cursor

	of string
}

// OperationsPage lists the operations that match a query, newest first. For a schedule
// without a label, it starts with the newest run. For a label or a schedule, a page ends
// with a whole command, unless that command has thousands of operations.
func (l *Operations) OperationsPage(ctx context.Context, q OperationsQuery) (p OperationsPage, err error) {
	w := q.way()
	first := q.Before
	if first == (Cursor{}) {
		first = Cursor{1<<62 - 1, "9223372036854775807"}
	}
	if !q.Until.IsZero() && sqlite.Micros(q.Until) <= first.at {
		first = Cursor{sqlite.Micros(q.Until), ""} // no ID sorts before ""
	}
	from := int64(0)
	if !q.From.IsZero() {
		from = sqlite.Micros(q.From)
	}
	args := []any{first.at, first.id, from, string(q.State), string(q.Kind), q.Schedule, q.Name, q.Value}
	last, more := Cursor{}, false
	if w.bound != "" {
		err := l.row(ctx, w.bound, append(args, failpoint.Size(ctx, "list.looked", LookedMost)-1)...).Scan(&last.at, &last.id)
		if more = err == nil; err != nil && !errors.Is(err, sql.ErrNoRows) {
			return p, err
		}
	}
	keys, err := sqlite.Collect(l.query(ctx, w.keys, append(args, last.at, last.id, q.Limit+1)...), sqlite.Into(func(k *listKey) []any { return []any{&k.at, &k.id, &k.of} }))
	for i, k := range keys {
		if err != nil || len(p.Operations) >= q.Limit {
			break
		}
		if p.Operations, err = l.addListed(ctx, p.Operations, w, k.of, q.State); i < len(keys)-1 || more {
			p.Next = k.Cursor
		} else {
			p.Next = Cursor{}
		}
	}
	if more && len(p.Operations) < q.Limit {
		p.Next = last
	}
	return p, err
}

func (l *Operations) addListed(ctx context.Context, all []fact.Operation, w way, id string, state fact.State) ([]fact.Operation, error) {
	if !w.commands {
		o, err := l.Operation(ctx, id)
		return append(all, o), err
	}
	of, err := l.OperationsOf(ctx, id)
	for i, o := range of {
		if i < wholeCommand && (state == "" || o.State == state) {
			all = append(all, o)
		}
	}
	return all, err
}

// Review is an operation, one line of an operation, or a proxy, that needs review.
type Review struct {
	OperationID string    `json:"operation_id"`
	CommandID   string    `json:"command_id"`
	Kind        fact.Kind `json:"kind"`
	ProxyID     string    `json:"proxy_id,omitempty"`
	Reason      string    `json:"reason"`
	Code        string    `json:"code,omitempty"`
	TraceID     string    `json:"trace_id,omitempty"`
	Since       time.Time `json:"since"`
	// AtStakeCents is the exposure: the amount in suspense, booked, or expected to be charged.
	// It is unknown without an estimate.
	AtStakeCents fact.Cents `json:"at_stake_cents"`
	// Ended says that the outcome is known and no amount is exposed. The operator only decides
	// whether schedules renew the proxy again.
	Ended bool `json:"-"`
}

// Reviews lists what needs review, oldest first.
func (l *Operations) Reviews(ctx context.Context) ([]Review, error) { return l.FirstReviews(ctx, -1) }

// FirstReviews is Reviews with a limit; a negative limit means no limit.
func (l *Operations) FirstReviews(ctx context.Context, limit int) ([]Review, error) {
	return sqlite.Collect(l.query(ctx, `SELECT v.operation_id, v.command_id, v.kind, v.proxy_id, v.reason, v.code, v.trace_id, v.since,
		CASE WHEN v.proxy_id <> '' THEN (SELECT l.charged_cents - l.refunded_cents FROM lines l WHERE l.operation = o.id AND l.proxy_id = v.proxy_id)
		ELSE max(o.estimate_cents, o.charged_cents - o.refunded_cents) END,
		EXISTS (SELECT 1 FROM lines l WHERE l.operation = o.id AND l.proxy_id = v.proxy_id AND l.claim = 0)
		FROM v_reviews v JOIN operations o ON o.id = v.operation_id ORDER BY v.since, v.operation_id, v.proxy_id LIMIT +?`, limit), func(s sqlite.Scanner) (Review, error) {
		var x Review
		var stake int64
		err := s.Scan(&x.OperationID, &x.CommandID, &x.Kind, &x.ProxyID, &x.Reason, &x.Code, &x.TraceID, sqlite.At(&x.Since), &stake, &x.Ended)
		if x.AtStakeCents = fact.Estimated(stake); x.Ended {
			x.AtStakeCents = fact.Known(stake)
		}
		return x, err
	})
}

// tracedAtOnce is how many rows one statement of a search reads. A longer read would hold
// the write-ahead log open too long.
const tracedAtOnce = 20_000

// Traced lists up to limit subjects (operations or commands) with a trace ID: first by an
// operation's last trace ID, then by the text of the journal, each newest first. A search of
// a million operations takes a few seconds. An index on trace IDs would cost the writer a
// tenth of its time. For an archived operation, only the last trace ID is found.
func (l *Operations) Traced(ctx context.Context, trace string, limit int) (all []string, err error) {
	seen := map[string]bool{}
	add := func(s sqlite.Scanner) error {
		id, err := sqlite.Value[string](s)
		if err == nil && !seen[id] && len(all) < limit {
			all, seen[id] = append(all, id), true
		}
		return err
	}
	rows, err := sqlite.Value[int64](l.row(ctx, `SELECT coalesce(max(rowid), 0) FROM operations`))
	for ; err == nil && rows > 0 && len(all) < limit; rows -= tracedAtOnce {
		err = sqlite.Each(l.query(ctx, `SELECT id FROM operations WHERE rowid > ? AND rowid <= ? AND trace_id = ? ORDER BY rowid DESC LIMIT +?`,
			rows-tracedAtOnce, rows, trace, limit), add)
	}
	if err != nil {
		return nil, err
	}
	seq, err := sqlite.Value[int64](l.row(ctx, `SELECT coalesce(max(seq), 0) FROM journal`))
	for ; err == nil && seq > 0 && len(all) < limit; seq -= tracedAtOnce {
		// The limit applies to operations, not to rows: an operation has many rows.
		err = sqlite.Each(l.query(ctx, `SELECT operation FROM journal WHERE seq > ? AND seq <= ? AND operation <> '' AND instr(data, ?) > 0 GROUP BY +operation ORDER BY max(seq) DESC`,
			seq-tracedAtOnce, seq, trace), add)
	}
	return all, err
}
