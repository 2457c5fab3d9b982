// Tx, with which a caller of Write appends facts. Each fact becomes a row and is applied.

package ledger

import (
	"errors"
	"fmt"
	"time"

	"github.com/mattn/go-sqlite3"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
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

// Error returns the type of the fact and the cause.
func (e *UnrecordableError) Error() string { return e.Fact + " cannot be recorded: " + e.Err.Error() }

// Unwrap returns ErrTooLarge, or SQLite's error.
func (e *UnrecordableError) Unwrap() error { return e.Err }

// Tx is one caller's part of the writer's transaction.
type Tx struct {
	observations
	records

	w    *writer
	now  int64
	rows []chain.Row

	decided decision
	ended   []fact.Ref // commands for which a fact of this request may have been the last

	finishing bool // append command.finished to ended commands; a fold finds it in the journal
}

// newTx returns a transaction of the writer at an instant.
func newTx(w *writer, now int64) *Tx {
	return &Tx{observations: observations{w, now}, records: records{w}, w: w, now: now}
}

// observations changes the caches of the provider's proxies. No fact records these changes.
type observations struct {
	w   *writer
	now int64
}

// records reads what operators have recorded and answered.
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
		made = append(made, plannedAs(p, f.CommandID, f.Kind, f.EstimateCents, t.now))
	}
	return made, t.Append(append([]fact.Fact{f}, then...)...)
}

// AppendTo appends facts that were decided on one version of an operation
// (Operation.Version). It returns the operation after the facts, or ErrStale if the version
// has changed.
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

// execFleet runs a statement that changes proxies.
func (t observations) execFleet(query string, args ...any) error {
	n, err := t.w.changed(query, args)
	t.w.fleet = t.w.fleet || n > 0
	return err
}

func (t *Tx) queryRow(query string, args ...any) sqlite.Scanner { return t.w.QueryRow(query, args...) }

func (t *Tx) query(query string, args ...any) sqlite.Rows { return t.w.Query(query, args...) }
