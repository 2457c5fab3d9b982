// This file applies an operator's change to each operation of a command, while the runner
// continues to send, split and settle operations.

package desk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"perennial/jobs/command"
	"perennial/jobs/inspect"
	"perennial/ledger"
	"perennial/ledger/fact"
)

// errLeaveAlone is returned by a change if the operation must stay unchanged.
var errLeaveAlone = errors.New("left alone")

// target is the command or operation that an operator changes.
type target struct {
	id string
	as inspect.As
}

// targetOf returns the target for an id. If as is empty, the id may be a command's or an
// operation's.
func targetOf(id string, as []inspect.As) target {
	if len(as) == 0 {
		return target{id: id}
	}
	return target{id: id, as: as[0]}
}

// change returns the fact that changes one operation, or errLeaveAlone.
type change func(fact.Operation, fact.Ref) (fact.Fact, error)

const (
	// changesATime limits how many operations one commit changes. A command may have thousands,
	// and the writer must serve other requests in between.
	changesATime = 256
	// changeRounds limits the reads of operations that change in the meantime.
	changeRounds = 8
)

// each applies a change to one operation, or to all operations of a command, and returns how
// many it changed. It skips operations in other states, and those that another operation has
// replaced. An operation that changes in the meantime is read and decided again.
func (d *Desk) each(ctx context.Context, of target, by signature, do change, states ...fact.State) (int, error) {
	if err := by.check(); err != nil {
		return 0, err
	}
	p := &pending{ledger: d.c.Ledger, do: do, states: states, done: map[string]bool{}}
	moved, err := p.round(ctx, of)
	for again := 1; err == nil && moved > 0 && again < changeRounds; again++ {
		moved, err = p.round(ctx, of)
	}
	if p.changed == 0 {
		return 0, p.nothingChanged(err, moved, of.id)
	}
	d.c.Start(ctx, p.commandID)
	return p.changed, p.cutShort(err)
}

// nothingChanged returns why no operation was changed.
func (p *pending) nothingChanged(err error, moved int, id string) error {
	switch {
	case errors.Is(err, ledger.ErrClaimed):
		return command.Refuse("%v", err)
	case err != nil:
		return err
	case moved > 0:
		return command.Refuse("the operations of %s change faster than they can be changed by hand: ask again", id)
	}
	if slices.ContainsFunc(p.now, func(s fact.State) bool { return slices.Contains(p.states, s) }) {
		return command.Refuse("%s is left as it is: another operation has taken its place, which `perennial status %s` shows", id, p.commandID)
	}
	return command.Refuse("%s is %s: only what is %s can be changed so", id, statesText(p.now, "and"), statesText(p.states, "or"))
}

// cutShort returns the error of a change that stopped after some operations, or nil if err
// is nil.
func (p *pending) cutShort(err error) error {
	if refused := (*command.RefusedError)(nil); errors.As(err, &refused) || errors.Is(err, ledger.ErrClaimed) {
		return command.Refuse("%d operations of %s were changed, and then: %v", p.changed, p.commandID, err)
	}
	if err != nil {
		return fmt.Errorf("%d operations of %s were changed, and then: %w", p.changed, p.commandID, err)
	}
	return nil
}

// pending is the progress of a change of many operations.
type pending struct {
	ledger *ledger.Ledger
	do     change
	states []fact.State

	commandID string
	of        fact.Ref        // the command
	done      map[string]bool // operations that were changed, and those that the change created
	now       []fact.State    // states of the operations last read
	changed   int
}

// round changes the operations that are in one of the states. moved is the number of
// operations that changed between the read and the write.
func (p *pending) round(ctx context.Context, what target) (moved int, err error) {
	records, of, err := operationsOf(ctx, p.ledger, what)
	if err != nil {
		return 0, err
	}
	p.commandID, p.of = records[0].CommandID, of
	all, err := p.ledger.Operations.OperationsOf(ctx, p.commandID)
	if err != nil {
		return 0, err
	}
	p.now = nil
	for _, o := range records {
		p.now = append(p.now, o.State)
	}
	slices.Sort(p.now)
	p.now = slices.Compact(p.now)
	latest := fact.LatestOf(all)
	records = slices.DeleteFunc(records, func(o fact.Operation) bool {
		return p.done[o.ID] || !slices.Contains(p.states, o.State) || latest.Superseded(o)
	})
	for some := range slices.Chunk(records, changesATime) {
		n, err := p.commit(ctx, some)
		if moved += n; err != nil {
			return moved, err
		}
	}
	return moved, nil
}

// decided is a fact, with the version of the operation from which it was decided.
type decided struct {
	id      string
	version int64
	fact    fact.Fact
}

// commit changes some operations in one transaction.
func (p *pending) commit(ctx context.Context, records []fact.Operation) (moved int, err error) {
	facts, err := p.decide(records)
	if err != nil {
		return 0, err
	}
	var written []decided
	err = p.ledger.Write(ctx, func(tx *ledger.Tx) error {
		moved, written = 0, nil // Write may run this function twice
		for _, d := range facts {
			now, err := tx.Operation(d.id)
			if err != nil {
				return err
			}
			if now.Version != d.version {
				moved++
				continue
			}
			if _, err := tx.AppendTo(d.id, d.version, d.fact); err != nil {
				return err
			}
			written = append(written, d)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	for _, d := range written {
		p.finished(d)
	}
	return moved, nil
}

func (p *pending) decide(records []fact.Operation) (all []decided, err error) {
	for _, o := range records {
		f, err := p.do(o, fact.Ref{CommandID: o.CommandID, OperationID: o.ID, Labels: p.of.Labels, TraceID: o.TraceID, Trace: p.of.Trace})
		if errors.Is(err, errLeaveAlone) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, decided{o.ID, o.Version, f})
	}
	return all, nil
}

// finished marks an operation that was changed, and those that the change created, so that
// later rounds skip them.
func (p *pending) finished(d decided) {
	p.changed++
	p.done[d.id] = true
	if f, ok := d.fact.(fact.OperationResolved); ok {
		for _, x := range f.SendAgain {
			p.done[x.OperationID] = true
		}
	}
}

func statesText(states []fact.State, word string) string {
	names := make([]string, 0, len(states))
	for _, s := range states {
		names = append(names, string(s))
	}
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " " + word + " " + names[last]
}

// operationsOf returns the operation with the id, or all operations of the command with the
// id.
func operationsOf(ctx context.Context, l *ledger.Ledger, what target) (all []fact.Operation, of fact.Ref, err error) {
	id := what.id
	one, opErr := l.Operations.Operation(ctx, id)
	if what.as == inspect.AsCommand {
		opErr = ledger.ErrNotFound
	}
	accepted, err := l.Operations.Acceptance(ctx, id)
	if what.as == inspect.AsOperation {
		err = ledger.ErrNotFound
	}
	switch {
	case err == nil && opErr == nil:
		return nil, of, command.Refuse("%s is the id of a command, and of an operation of command %s: say which, with command_id or operation_id (--as command or --as operation)", id, one.CommandID)
	case opErr == nil:
		accepted, err := l.Operations.Acceptance(ctx, one.CommandID)
		return []fact.Operation{one}, accepted.Ref, err
	case errors.Is(err, ledger.ErrNotFound):
		if _, known := l.Operations.Rejection(ctx, id); known == nil {
			return nil, of, command.Refuse("%s was refused on arrival. %s", id, inspect.RefusedNext)
		}
		return nil, of, command.RefuseUnknown("%s is not an accepted command or an operation: see `perennial operations list`", id)
	}
	if err != nil {
		return nil, of, err
	}
	records, err := l.Operations.OperationsOf(ctx, id)
	return records, accepted.Ref, err
}
