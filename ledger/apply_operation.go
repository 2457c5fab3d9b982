package ledger

import (
	"cmp"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
	"perennial/ledger/tables"
)

type operation struct {
	fact.Operation

	live      bool // it has not ended
	chargedAt any  // when the first charge was booked, in microseconds; nil before

	lines []heldLine // while the operation is held back
	days  int64      // duration_days of its lines
	next  int        // index of the line that the next fact probably concerns
}

// known is a cache of operations, and of commands with a single operation, in their state within
// the transaction. It saves reading back what was just written.
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

func (k *known) forgetCommand(id string) {
	if c, ok := k.commands[id]; ok {
		delete(k.operations, c.operation)
		delete(k.commands, id)
	}
}

const operationByID = `SELECT ` + tables.OperationColumns + `, live, charged_at FROM operations WHERE id = ?`

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
func (t projector) create(r chain.Row, commandID string, kind fact.Kind, days, estimate int64, p fact.Planned, x fact.Presumed) error {
	h := &t.w.held
	if h.byID[p.OperationID] != nil || slices.ContainsFunc(p.ProxyIDs, func(id string) bool { return h.claims[id] }) {
		if err := t.w.writeProjected(); err != nil {
			return err
		}
	}
	o := &operation{Operation: plannedAs(p, x, commandID, kind, estimate, r.Time), live: true, days: days, lines: make([]heldLine, len(p.ProxyIDs))}
	for i, id := range p.ProxyIDs {
		o.lines[i] = heldLine{proxyID: id, state: fact.LinePending, claim: true}
		h.claims[id] = true
	}
	h.born, h.byID[o.ID] = append(h.born, o), o
	h.size += len(o.lines)
	t.w.known.remember(o)
	return nil
}

func plannedAs(p fact.Planned, x fact.Presumed, commandID string, kind fact.Kind, estimate, at int64) fact.Operation {
	o := fact.Operation{
		ID: p.OperationID, CommandID: commandID, Kind: kind, Chunk: p.Chunk, Generation: p.Generation, Key: p.Key, State: fact.StateAccepted, Version: 1,
		EstimateCents: estimate, AcceptedAt: sqlite.FromMicros(at), UpdatedAt: sqlite.FromMicros(at),
	}
	x.Apply(&o)
	return o
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

// Changes an operation at the row's time. It fails if the operation no longer has the version on
// which the facts were decided.
func (t projector) change(r chain.Row, id string, change func(*operation)) error {
	return t.changeAs(id, changeOperation, func(o *operation) {
		change(o)
		o.UpdatedAt = sqlite.FromMicros(r.Time)
	})
}

// changeAs changes an operation in memory if its row is not written yet (heldBack). Otherwise it
// changes the operation with one statement.
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

func (w *writer) update(o *operation, update string, was int64) error {
	w.row = w.row[:0]
	if update == changeOperation {
		w.row = o.appendChanging(w.row)
	} else {
		w.row = append(w.row, o.Version, o.ChargedCents, o.RefundedCents, o.chargedAt)
	}
	return w.execOne(update, append(w.row, o.ID, was)...)
}

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

// changeHeld changes the lines of an operation whose rows are not written yet (heldBack). If
// proxyID is set, it changes only the line of that proxy. It returns false if the rows are
// written already. A change may release a proxy, but must not reserve one.
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

// applySending sets updated_at to the time of the intent. updated_at stays unchanged until the
// outcome is recorded, because the retry window of an attempt with an unknown outcome starts
// there.
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

// Adds booked cents. The first charge also sets chargedAt.
func (o *operation) add(charged, refunded, at int64) {
	o.ChargedCents, o.RefundedCents = o.ChargedCents+charged, o.RefundedCents+refunded
	if charged != 0 && o.chargedAt == nil {
		o.chargedAt = at
	}
}

// firstCharge returns the time of the first booked charge, in microseconds. It returns 0 if
// nothing was charged.
func (o *operation) firstCharge() int64 {
	at, _ := o.chargedAt.(int64)
	return at
}

// transfer moves cents from the credited ledger account to the debited one.
type transfer struct {
	kind, debit, credit string
	cents               int64
	operation           string
	orderNo, proxyID    string
	chargedAt           int64 // for a refund: when the charge was booked; 0 if in the same row
}

// Writes the transfers of one fact. It skips zero amounts and refuses negative ones.
func (t projector) book(r chain.Row, transfers ...transfer) error {
	n, at := 0, t.bookedAt(r)
	for _, m := range transfers {
		if m.cents == 0 {
			continue
		}
		if m.cents < 0 {
			return fmt.Errorf("a transfer of %d cents from %s to %s: amounts are positive", m.cents, m.credit, m.debit)
		}
		n++
		t.w.held.transfers.add(r.Seq, n, m.kind, m.debit, m.credit, m.cents, m.operation, m.orderNo, m.proxyID, at)
		t.w.held.size++
		t.w.totals[total{m.debit, m.credit, m.kind}] += m.cents
		t.w.countNet(at, m)
		t.w.booked = at
	}
	return nil
}

// bookedAt returns the booking time of a row: the row's time, or the time of the latest
// earlier booking if that is later. A clock that was set back, or another runner's slow
// clock, therefore never books into an earlier day or month. Rows that book nothing do not
// count, because their clock may be wrong. The clock of a row that books a charge can be
// trusted: the provider refuses requests whose time is off.
func (t projector) bookedAt(r chain.Row) int64 { return max(t.w.booked, r.Time) }

// readBooked reads the time of the last booking, unless it is known. Opening the ledger
// counts as a booking, even with a balance of zero.
func (w *writer) readBooked() error {
	if w.booked != 0 {
		return nil
	}
	return w.QueryRow(`SELECT max(coalesce((SELECT booked_at FROM transfers WHERE seq = (SELECT max(seq) FROM transfers) LIMIT 1), 0),
		coalesce((SELECT opened_at FROM binding), 0))`).Scan(&w.booked)
}

type total struct{ debit, credit, kind string }

func (w *writer) flushTotals() error {
	for k, cents := range w.totals {
		err := w.exec(`INSERT INTO totals (debit, credit, kind, cents) VALUES (?, ?, ?, ?)
			ON CONFLICT (debit, credit, kind) DO UPDATE SET cents = cents + excluded.cents`, k.debit, k.credit, k.kind, cents)
		if err != nil {
			return err
		}
	}
	clear(w.totals)
	return w.flushNetCharges()
}

func (t projector) applyOrder(r chain.Row, f fact.Fact) error {
	switch f := f.(type) {
	case fact.OrderAccepted:
		return t.change(r, f.OperationID, func(o *operation) {
			o.State, o.OrderNo, o.TraceID, o.NextAt = fact.StateOpen, f.OrderNo, f.TraceID, new(sqlite.FromMicros(sqlite.Micros(f.NextAt)))
			o.ProgressAt, o.Reason, o.Code = new(sqlite.FromMicros(r.Time)), "", ""
		})
	case fact.OrderProgressed:
		return t.orderState(r, f.OrderState, fact.StateOpen, f.Reason, new(sqlite.FromMicros(sqlite.Micros(f.NextAt))))
	case fact.OrderDelivered:
		if err := t.applyBought(f.Ref, f.ProxyIDs, f.Proxies); err != nil {
			return err
		}
		state, reason := f.OrderState, ""
		state.ExpectedCount, state.DeliveredCount = f.Counts()
		if f.Short != nil {
			reason = fmt.Sprintf("%d of %d proxies were delivered", state.DeliveredCount, state.ExpectedCount)
		}
		return t.orderState(r, state, fact.StateDelivered, reason, nil)
	case fact.OrderRefunded:
		if err := t.applyBought(f.Ref, f.ProxyIDs, f.Proxies); err != nil {
			return err
		}
		return t.orderState(r, f.OrderState, fact.StateRefunded, "", nil)
	case fact.OrderListed:
		return t.applyBought(f.Ref, f.ProxyIDs, f.Proxies)
	}
	return fmt.Errorf("no fold for %T", f)
}

func (t projector) orderState(r chain.Row, f fact.OrderState, state fact.State, reason string, nextAt *time.Time) error {
	var chargedAt int64
	err := t.change(r, f.OperationID, func(o *operation) {
		if o.DeliveredCount != f.DeliveredCount || o.ProgressAt == nil || sqlite.Micros(*o.ProgressAt) == 0 {
			o.ProgressAt = new(sqlite.FromMicros(r.Time))
		}
		o.State, o.live, o.Reason, o.TraceID, o.NextAt = state, state == fact.StateOpen, reason, cmp.Or(f.TraceID, o.TraceID), nextAt
		o.ExpectedCount, o.DeliveredCount = f.ExpectedCount, f.DeliveredCount
		o.ReadAt, o.UnreadSince = inMicros(f.ReadAt), inMicros(f.UnreadSince)
		o.add(f.ChargedCents, f.RefundedCents, t.bookedAt(r))
		chargedAt = o.firstCharge()
	})
	if err != nil {
		return err
	}
	return t.book(r,
		transfer{kind: "charge", debit: "orders", credit: "wallet", cents: f.ChargedCents, operation: f.OperationID, orderNo: f.OrderNo},
		transfer{kind: "refund", debit: "wallet", credit: "orders", cents: f.RefundedCents, operation: f.OperationID, orderNo: f.OrderNo, chargedAt: chargedAt})
}

// Books the lines of a renewal and returns their sums. Succeeded and failed lines are final. An
// unresolved line is booked to suspense, and its proxy stays reserved.
func (t projector) settle(r chain.Row, operation string, lines []fact.Line) (charged, refunded int64, err error) {
	transfers := make([]transfer, 0, 2*len(lines))
	for _, l := range lines {
		claim := l.State == fact.LineUnresolved
		held, err := t.changeHeld(operation, l.ProxyID, func(x *heldLine) {
			x.state, x.claim, x.charged, x.refunded, x.settled = l.State, claim, l.ChargedCents, l.RefundedCents, r.Time
		})
		if err == nil && !held {
			err = t.exec(settleLine, string(l.State), claim, l.ChargedCents, l.RefundedCents, r.Time, operation, l.ProxyID)
		}
		if err != nil {
			return 0, 0, err
		}
		charged, refunded = charged+l.ChargedCents, refunded+l.RefundedCents
		at, kind := "renewals", "charge"
		if l.State == fact.LineUnresolved {
			at, kind = "suspense", "suspense"
		}
		transfers = append(transfers,
			transfer{kind: kind, debit: at, credit: "wallet", cents: l.ChargedCents, operation: operation, proxyID: l.ProxyID},
			transfer{kind: "refund", debit: "wallet", credit: at, cents: l.RefundedCents, operation: operation, proxyID: l.ProxyID})
	}
	return charged, refunded, t.book(r, transfers...)
}

// bookRecorded books a charge or refund that an operator recorded, on the operation and on
// the line named in the record. A charge for a line that was not charged, and a correction
// that takes a line's charge back, also change the line's state.
func (t projector) bookRecorded(r chain.Row, f fact.LedgerRecorded) error {
	charged, refunded := f.AmountCents, int64(0)
	if f.Movement == fact.MovementRefund {
		charged, refunded = 0, f.AmountCents
	}
	if f.ProxyID != "" {
		err := t.w.execOne(recordOnLine, charged, refunded, f.Corrects > 0, f.OperationID, f.ProxyID)
		if err != nil {
			return err
		}
	}
	m, at := transfer{operation: f.OperationID, orderNo: f.OrderNo, proxyID: f.ProxyID}, "renewals"
	err := t.changeAs(f.OperationID, changeAmounts, func(o *operation) {
		o.add(charged, refunded, t.bookedAt(r))
		if m.chargedAt = o.firstCharge(); o.Kind.MakesOrder() {
			at = "orders"
		}
	})
	if err != nil {
		return err
	}
	return t.book(r, m.as("charge", at, "wallet", charged), m.as("refund", "wallet", at, refunded))
}

const recordOnLine = `UPDATE lines SET charged_cents = charged_cents + ?1, refunded_cents = refunded_cents + ?2,
	state = CASE WHEN state = 'not_charged' AND charged_cents + ?1 > refunded_cents THEN 'charged'
		WHEN state = 'charged' AND ?3 AND charged_cents <= refunded_cents + ?2 THEN 'not_charged' ELSE state END
	WHERE operation = ?4 AND proxy_id = ?5`

// bookResolution books an operator's answer and returns the cents added to the operation's
// charges and refunds. Money in suspense moves to renewals if it was charged, and back to
// the wallet if not. An amount that was never booked is booked now.
func (t projector) bookResolution(r chain.Row, f fact.OperationResolved) (added, returned int64, err error) {
	transfers, added, returned, err := resolution(t.queryRow, f)
	if err != nil {
		return 0, 0, err
	}
	return added, returned, t.book(r, transfers...)
}

// resolution computes what an operator's answer books, given the operation's present state.
// It returns the transfers and the cents added to the operation's charges and refunds.
func resolution(queryRow func(string, ...any) sqlite.Scanner, f fact.OperationResolved) (transfers []transfer, added, returned int64, err error) {
	if len(f.Lines) == 0 {
		return resolutionOf(queryRow, f)
	}
	for _, l := range f.Lines {
		line := f
		line.ProxyID, line.ChargedCents = l.ProxyID, l.ChargedCents
		more, a, r, err := resolutionOf(queryRow, line)
		if err != nil {
			return nil, 0, 0, err
		}
		transfers, added, returned = append(transfers, more...), added+a, returned+r
	}
	return transfers, added, returned, nil
}

// resolutionOf computes the resolution of one line, or of all lines together.
func resolutionOf(queryRow func(string, ...any) sqlite.Scanner, f fact.OperationResolved) (transfers []transfer, added, returned int64, err error) {
	var kind fact.Kind
	var orderNo string
	var booked, suspense, chargedAt int64
	err = queryRow(`SELECT kind, order_no, charged_cents - refunded_cents, coalesce(charged_at, 0) FROM operations WHERE id = ?`, f.OperationID).
		Scan(&kind, &orderNo, &booked, &chargedAt)
	if err != nil {
		return nil, 0, 0, sqlite.NotFound(err)
	}
	err = queryRow(`SELECT coalesce(sum(charged_cents - refunded_cents), 0) FROM lines
		WHERE operation = ? AND state = 'unresolved' AND (? = '' OR proxy_id = ?)`, f.OperationID, f.ProxyID, f.ProxyID).Scan(&suspense)
	if err != nil {
		return nil, 0, 0, err
	}
	m := transfer{operation: f.OperationID, orderNo: cmp.Or(f.OrderNo, orderNo), proxyID: f.ProxyID, chargedAt: chargedAt}
	at, back := "renewals", "suspense"
	fromSuspense := min(suspense, f.ChargedCents)
	returned, added = suspense-fromSuspense, f.ChargedCents-fromSuspense
	if kind.MakesOrder() {
		at, back, fromSuspense = "orders", "orders", 0
		added, returned = max(f.ChargedCents-booked, 0), max(booked-f.ChargedCents, 0)
	}
	return []transfer{
		m.as("resolution", at, "suspense", fromSuspense),
		m.as("refund", "wallet", back, returned),
		m.as("charge", at, "wallet", added),
	}, added, returned, nil
}

func (m transfer) as(kind, debit, credit string, cents int64) transfer {
	m.kind, m.debit, m.credit, m.cents = kind, debit, credit, cents
	return m
}
