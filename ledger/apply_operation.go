// Projecting the usual life of an operation: it is created, sent, and settles as a renewal.
// The writer caches such operations, so that no step reads back what it just wrote.

package ledger

import (
	"errors"
	"fmt"

	"github.com/mattn/go-sqlite3"

	"perennial/ledger/fact"
)

// known caches operations, and commands of a single operation, as they are inside the
// transaction.
type known struct {
	operations map[string]fact.Operation
	commands   map[string]singleCommand
}

// singleCommand is a command accepted with one operation. It has skipped no proxy and has
// not finished since.
type singleCommand struct {
	operation      string
	replyTo        string
	streamSequence uint64
}

// knownMost bounds each cache. It is far more than a runner has in progress at once.
const knownMost = 4096

func newKnown() known {
	return known{operations: map[string]fact.Operation{}, commands: map[string]singleCommand{}}
}

func (k *known) clear() {
	clear(k.operations)
	clear(k.commands)
}

func (k *known) remember(o fact.Operation) {
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

// forgetCommand forgets a command that has ended, and its operation.
func (k *known) forgetCommand(id string) {
	if c, ok := k.commands[id]; ok {
		delete(k.operations, c.operation)
		delete(k.commands, id)
	}
}

// birth is an accepted operation that is not inserted yet. Its intent is nearly always the
// next fact, and then it is inserted as one that is being sent.
type birth struct {
	operation fact.Operation
	proxies   []string
	days      int64
	observed  map[string]int64 // expiries that the intent names, in microseconds
}

// create accepts an operation and claims its proxies.
func (t projector) create(r Row, commandID string, kind fact.Kind, days, estimate int64, p fact.Planned) error {
	if err := t.w.writeBirth(); err != nil {
		return err
	}
	o := plannedAs(p, commandID, kind, estimate, r.Time)
	t.w.held.born = &birth{operation: o, proxies: p.ProxyIDs, days: days}
	t.w.known.remember(o)
	return nil
}

// plannedAs returns a planned operation as it is when accepted.
func plannedAs(p fact.Planned, commandID string, kind fact.Kind, estimate, at int64) fact.Operation {
	return fact.Operation{
		ID: p.OperationID, CommandID: commandID, Kind: kind, Chunk: p.Chunk, Generation: p.Generation, Key: p.Key, State: fact.StateAccepted, Version: 1,
		EstimateCents: estimate, AcceptedAt: fromMicros(at), UpdatedAt: fromMicros(at),
	}
}

// writeBirth inserts a held-back operation with its claims. The unique index on open lines
// arbitrates between two commands for one proxy.
func (w *writer) writeBirth() error {
	b := w.held.born
	if b == nil {
		return nil
	}
	w.held.born = nil
	o := b.operation
	err := w.exec(`INSERT INTO operations (id, command_id, kind, chunk, generation, idempotency_key, state, version, app_id, attempts, body_seq, first_sent_at,
		estimate_cents, accepted_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, nullif(?, 0), ?, ?, ?, ?)`,
		o.ID, o.CommandID, string(o.Kind), o.Chunk, o.Generation, o.Key, string(o.State), o.Version, o.AppID, o.Attempts, o.BodySeq, nullInstant(o.FirstSentAt),
		o.EstimateCents, micros(o.AcceptedAt), micros(o.UpdatedAt))
	if err != nil {
		return err
	}
	for _, id := range b.proxies {
		var observed any
		if at, ok := b.observed[id]; ok {
			observed = at
		}
		err := w.exec(`INSERT INTO lines (operation, proxy_id, state, claim, observed_expires_at, duration_days) VALUES (?, ?, 'pending', 1, ?, ?)`,
			o.ID, id, observed, b.days)
		if failure, ok := errors.AsType[sqlite3.Error](err); ok && failure.ExtendedCode == sqlite3.ErrConstraintUnique {
			return fmt.Errorf("proxy %s: %w", id, ErrClaimed)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// applySending sets updated_at to the time of the intent. It stays unchanged until the
// outcome is recorded: the window of an attempt that may have executed counts from it.
func (t projector) applySending(r Row, f fact.OperationSending) error {
	send := func(o *fact.Operation) {
		sent := fromMicros(micros(f.SentAt))
		o.State, o.Attempts, o.BodySeq, o.AppID, o.NextAt = fact.StateSending, f.Attempt, r.Seq, f.AppID, nil
		o.EstimateCents = max(o.EstimateCents, f.EstimateCents)
		if o.FirstSentAt == nil {
			o.FirstSentAt = &sent
		}
	}
	if b := t.w.held.born; b != nil && b.operation.ID == f.OperationID && t.decided.fits(b.operation) {
		b.operation = changed(b.operation, r, send)
		b.observed = make(map[string]int64, len(f.Observed))
		for id, at := range f.Observed {
			b.observed[id] = micros(at)
		}
		t.w.known.remember(b.operation)
		t.proveVersion(f.OperationID)
		return t.w.writeBirth()
	}
	for id, at := range f.Observed {
		err := t.exec(`UPDATE lines SET observed_expires_at = ? WHERE operation = ? AND proxy_id = ?`, micros(at), f.OperationID, id)
		if err != nil {
			return err
		}
	}
	return t.changeKnown(r, f.OperationID, send, func(o fact.Operation, was int64) error {
		return t.w.execOne(`UPDATE operations SET state = 'sending', attempts = ?, body_seq = ?, app_id = ?, estimate_cents = ?, first_sent_at = ?,
			next_at = NULL, updated_at = ?, version = ? WHERE id = ? AND version = ?`,
			o.Attempts, o.BodySeq, o.AppID, o.EstimateCents, nullInstant(o.FirstSentAt), r.Time, o.Version, o.ID, was)
	})
}

func (t projector) applyRenewal(r Row, f fact.RenewalSettled) error {
	charged, refunded, err := t.settle(r, f.OperationID, f.Items)
	if err != nil {
		return err
	}
	return t.changeKnown(r, f.OperationID, func(o *fact.Operation) {
		o.State, o.Code, o.TraceID, o.Reason, o.NextAt = fact.State(f.Status), f.Code, f.TraceID, "", nil
		o.ChargedCents, o.RefundedCents = o.ChargedCents+charged, o.RefundedCents+refunded
	}, func(o fact.Operation, was int64) error {
		return t.w.execOne(`UPDATE operations SET state = ?, live = 0, code = ?, trace_id = ?, reason = '', next_at = NULL,
			charged_cents = ?, refunded_cents = ?, charged_at = coalesce(charged_at, ?), updated_at = ?, version = ? WHERE id = ? AND version = ?`,
			f.Status, f.Code, f.TraceID, o.ChargedCents, o.RefundedCents, t.chargedIn(r, charged), r.Time, o.Version, o.ID, was)
	})
}

// changed returns the operation as a fact leaves it.
func changed(o fact.Operation, r Row, change func(*fact.Operation)) fact.Operation {
	change(&o)
	o.UpdatedAt, o.Version = fromMicros(r.Time), o.Version+1
	return o
}

// changeKnown changes an operation in memory and writes it, if the file still has the
// version that the facts were decided on.
func (t projector) changeKnown(r Row, id string, change func(*fact.Operation), write func(o fact.Operation, was int64) error) error {
	before, err := t.Operation(id)
	if err != nil {
		return err
	}
	was := before.Version
	if t.decided.operation == id {
		was = t.decided.version
	}
	after := changed(before, r, change)
	if err := write(after, was); err != nil {
		return err
	}
	t.w.known.remember(after)
	t.proveVersion(id)
	return nil
}

// proveVersion notes that a change matched the version that its facts were decided on.
func (t projector) proveVersion(id string) {
	if t.decided.operation == id {
		t.decided.version, t.decided.proven = t.decided.version+1, true
	}
}
