// Applying the life of an operation: creation, sending and settlement. An operation that is
// held back is changed in memory, any other with one statement per change. The writer caches
// operations, so that no step reads back what was just written.

package ledger

import (
	"database/sql"
	"fmt"
	"slices"
	"time"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
	"perennial/ledger/tables"
)

// operation is an operation with the fields that the projector needs.
type operation struct {
	fact.Operation

	live      bool // it has not ended
	chargedAt any  // when the first charge was booked, in microseconds; nil before

	lines []heldLine // while the operation is held back
	days  int64      // duration_days of its lines
	next  int        // index of the line that the next fact probably concerns
}

// known caches operations, and commands with a single operation, as they are within the
// transaction.
type known struct {
	operations map[string]*operation
	commands   map[string]singleCommand
}

// singleCommand is a command that was accepted with one operation, skipped no proxy and has
// not finished.
type singleCommand struct {
	operation      string
	replyTo        string
	streamSequence uint64
}

// knownMost limits each cache. It far exceeds what a runner has in progress.
const knownMost = 4096

func newKnown() known {
	return known{operations: map[string]*operation{}, commands: map[string]singleCommand{}}
}

func (k *known) clear() {
	clear(k.operations)
	clear(k.commands)
}

func (k *known) remember(o *operation) {
	if len(k.operations) >= knownMost {
		clear(k.operations)
	}
	k.operations[o.ID] = o
}

func (k *known) rememberCommand(id string, c singleCommand) {
	if len(k.commands) >= knownMost {
		clear(k.commands)
	}
	k.commands[id] = c
}

// forgetCommand removes a command and its single operation from the caches.
func (k *known) forgetCommand(id string) {
	if c, ok := k.commands[id]; ok {
		delete(k.operations, c.operation)
		delete(k.commands, id)
	}
}

const operationByID = `SELECT ` + tables.OperationColumns + `, live, charged_at FROM operations WHERE id = ?`

// operation returns an operation as it is within the transaction.
func (t *Tx) operation(id string) (*operation, error) {
	if o := t.w.held.byID[id]; o != nil {
		return o, nil
	}
	if o := t.w.known.operations[id]; o != nil {
		return o, nil
	}
	o := &operation{}
	var live int64
	var chargedAt sql.NullInt64
	var err error
	o.Operation, err = tables.ScanOperation(sqlite.With(t.queryRow(operationByID, id), &live, &chargedAt))
	if err != nil {
		return nil, sqlite.NotFound(err)
	}
	if o.live = live == 1; chargedAt.Valid {
		o.chargedAt = chargedAt.Int64
	}
	t.w.known.remember(o)
	return o, nil
}

// create creates an operation and reserves its proxies. If two commands want one proxy, the
// unique index on open lines refuses the second.
func (t projector) create(r chain.Row, commandID string, kind fact.Kind, days, estimate int64, p fact.Planned) error {
	h := &t.w.held
	if h.byID[p.OperationID] != nil || slices.ContainsFunc(p.ProxyIDs, func(id string) bool { return h.claims[id] }) {
		if err := t.w.writeProjected(); err != nil {
			return err
		}
	}
	o := &operation{Operation: plannedAs(p, commandID, kind, estimate, r.Time), live: true, days: days, lines: make([]heldLine, len(p.ProxyIDs))}
	for i, id := range p.ProxyIDs {
		o.lines[i] = heldLine{proxyID: id, state: fact.LinePending, claim: true}
		h.claims[id] = true
	}
	h.born, h.byID[o.ID] = append(h.born, o), o
	h.size += len(o.lines)
	t.w.known.remember(o)
	return nil
}

// plannedAs returns a planned operation in the state that it has when accepted.
func plannedAs(p fact.Planned, commandID string, kind fact.Kind, estimate, at int64) fact.Operation {
	return fact.Operation{
		ID: p.OperationID, CommandID: commandID, Kind: kind, Chunk: p.Chunk, Generation: p.Generation, Key: p.Key, State: fact.StateAccepted, Version: 1,
		EstimateCents: estimate, AcceptedAt: sqlite.FromMicros(at), UpdatedAt: sqlite.FromMicros(at),
	}
}

// The columns of an operation that facts change. changeOperation always sets the state, so
// that a trigger refuses transitions that the table arrows does not allow.
const (
	changing = `version, reason, code, trace_id, app_id, attempts, ambiguous, body_seq, first_sent_at, first_ambiguous_at, next_at, progress_at,
		order_no, expected_count, delivered_count, estimate_cents, charged_cents, refunded_cents, charged_at, updated_at, read_at, unread_since, state, live`
	changeOperation = `UPDATE operations SET (` + changing + `) = (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		WHERE id = ? AND version = ?`
	changeAmounts = `UPDATE operations SET version = ?, charged_cents = ?, refunded_cents = ?, charged_at = ? WHERE id = ? AND version = ?`
)

// appendChanging appends the values of the columns in changing.
func (o *operation) appendChanging(args []any) []any {
	var body any
	if o.BodySeq != 0 {
		body = o.BodySeq
	}
	return append(args, o.Version, o.Reason, o.Code, o.TraceID, o.AppID, o.Attempts, o.Ambiguous, body,
		stored(o.FirstSentAt), stored(o.FirstAmbiguousAt), stored(o.NextAt), stored(o.ProgressAt),
		o.OrderNo, o.ExpectedCount, o.DeliveredCount, o.EstimateCents, o.ChargedCents, o.RefundedCents, o.chargedAt, sqlite.Micros(o.UpdatedAt),
		stored(o.ReadAt), stored(o.UnreadSince), string(o.State), o.live)
}

// stored returns an instant in its stored form.
func stored(at *time.Time) any {
	if at == nil {
		return nil
	}
	return sqlite.Micros(*at)
}

// inMicros returns an instant as it will be read back: without nanoseconds, and nil if it
// is missing or zero.
func inMicros(at *time.Time) *time.Time {
	if at == nil || at.IsZero() {
		return nil
	}
	return new(sqlite.FromMicros(sqlite.Micros(*at)))
}

// change changes an operation at the row's time. It fails if the operation no longer has
// the version on which the facts were decided.
func (t projector) change(r chain.Row, id string, change func(*operation)) error {
	return t.changeAs(id, changeOperation, func(o *operation) {
		change(o)
		o.UpdatedAt = sqlite.FromMicros(r.Time)
	})
}

// changeAs changes an operation in memory while it is held back, otherwise with one
// statement.
func (t projector) changeAs(id, update string, change func(*operation)) error {
	o, err := t.operation(id)
	if err != nil {
		return err
	}
	was := *o
	if t.decided.operation == id && t.decided.version != o.Version {
		return fmt.Errorf("operation %s has version %d, decided on %d: %w", id, o.Version, t.decided.version, ErrNotFound)
	}
	change(o)
	o.Version++
	held := t.w.held.byID[id] != nil
	if held && update == changeOperation {
		allowed, err := t.w.arrow(was.State, o.State)
		if err != nil {
			return err
		}
		if !allowed { // the trigger will refuse it
			after := *o
			*o = was
			if err := t.w.writeProjected(); err != nil {
				return err
			}
			*o, held = after, false
		}
	}
	if !held {
		if err := t.w.update(o, update, was.Version); err != nil {
			delete(t.w.known.operations, id)
			return err
		}
	}
	if t.decided.operation == id {
		t.decided.version, t.decided.proven = t.decided.version+1, true
	}
	return nil
}

// update writes a changed operation if the file still has its previous version.
func (w *writer) update(o *operation, update string, was int64) error {
	w.row = w.row[:0]
	if update == changeOperation {
		w.row = o.appendChanging(w.row)
	} else {
		w.row = append(w.row, o.Version, o.ChargedCents, o.RefundedCents, o.chargedAt)
	}
	return w.execOne(update, append(w.row, o.ID, was)...)
}

// arrow reports whether an operation may go from one state to another.
func (w *writer) arrow(from, to fact.State) (bool, error) {
	if w.arrows == nil {
		w.arrows = map[[2]fact.State]bool{}
		err := sqlite.Each(w.Query(`SELECT from_state, to_state FROM arrows`), func(s sqlite.Scanner) error {
			var a [2]fact.State
			err := s.Scan(&a[0], &a[1])
			w.arrows[a] = true
			return err
		})
		if err != nil {
			return false, err
		}
	}
	return w.arrows[[2]fact.State{from, to}], nil
}

const (
	settleLine = `UPDATE lines SET state = ?, claim = ?, charged_cents = ?, refunded_cents = ?, settled_at = ? WHERE operation = ? AND proxy_id = ?`
	skipLine   = `UPDATE lines SET state = 'skipped', claim = 0, settled_at = ? WHERE operation = ? AND proxy_id = ?`
	endLines   = `UPDATE lines SET state = 'not_charged', claim = 0, settled_at = ? WHERE operation = ? AND claim = 1`

	observeLine = `UPDATE lines SET observed_expires_at = ? WHERE operation = ? AND proxy_id = ?`
)

// changeHeld changes the lines of an operation that is held back, or only the line of one
// proxy. It returns false if the operation is not held back. A change may release a proxy,
// but must not reserve one.
func (t projector) changeHeld(operation, proxyID string, change func(*heldLine)) (held bool, err error) {
	h := &t.w.held
	o := h.byID[operation]
	if o == nil {
		// The statement that follows may release a proxy. A held-back operation that asked
		// for this proxy earlier must fail, so write it first.
		if len(h.claims) > 0 && (proxyID == "" || h.claims[proxyID]) {
			err = t.w.writeProjected()
		}
		return false, err
	}
	for i := range o.lines {
		l := &o.lines[(o.next+i)%len(o.lines)]
		if proxyID != "" && l.proxyID != proxyID {
			continue
		}
		claimed := l.claim
		if change(l); claimed && !l.claim {
			h.claims[l.proxyID] = false
		}
		if proxyID != "" {
			o.next += i + 1 // facts list lines in order
			break
		}
	}
	return true, nil
}

// applySending sets updated_at to the time of the intent. It stays unchanged until the
// outcome is recorded, because the retry window of an attempt with an unknown outcome
// starts there.
func (t projector) applySending(r chain.Row, f fact.OperationSending) error {
	for id, at := range f.Observed {
		held, err := t.changeHeld(f.OperationID, id, func(l *heldLine) { l.observed = sqlite.Micros(at) })
		if err == nil && !held {
			err = t.exec(observeLine, sqlite.Micros(at), f.OperationID, id)
		}
		if err != nil {
			return err
		}
	}
	return t.change(r, f.OperationID, func(o *operation) {
		o.State, o.Attempts, o.BodySeq, o.AppID, o.NextAt = fact.StateSending, f.Attempt, r.Seq, f.AppID, nil
		o.EstimateCents = max(o.EstimateCents, f.EstimateCents)
		if o.FirstSentAt == nil {
			o.FirstSentAt = inMicros(&f.SentAt)
		}
	})
}

func (t projector) applyRenewal(r chain.Row, f fact.RenewalSettled) error {
	charged, refunded, err := t.settle(r, f.OperationID, f.Items)
	if err != nil {
		return err
	}
	return t.change(r, f.OperationID, func(o *operation) {
		o.State, o.live, o.Code, o.TraceID, o.Reason, o.NextAt = fact.State(f.Status), false, f.Code, f.TraceID, "", nil
		o.add(charged, refunded, t.bookedAt(r))
	})
}

// add adds booked cents. The first charge sets the time of the operation's charge.
func (o *operation) add(charged, refunded, at int64) {
	o.ChargedCents, o.RefundedCents = o.ChargedCents+charged, o.RefundedCents+refunded
	if charged != 0 && o.chargedAt == nil {
		o.chargedAt = at
	}
}

// firstCharge returns when the first charge was booked, in microseconds; 0 if nothing was
// charged.
func (o *operation) firstCharge() int64 {
	at, _ := o.chargedAt.(int64)
	return at
}
