// A person's change of a command is one of each of its operations, while others of them
// are being sent, split and settled.

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

// errLeaveAlone is what a change returns for an operation that stays as it is.
var errLeaveAlone = errors.New("left alone")

// target is a command or an operation that a person changes.
type target struct {
	id string
	as inspect.As
}

// targetOf is the target of an id, which is of either unless as says of which.
func targetOf(id string, as []inspect.As) target {
	if len(as) == 0 {
		return target{id: id}
	}
	return target{id: id, as: as[0]}
}

// change makes the fact that changes one operation, or returns errLeaveAlone.
type change func(fact.Operation, fact.Ref) (fact.Fact, error)

const (
	// changesATime is how many operations one commit changes: a command may have
	// thousands, and the writer serves all that is being carried out.
	changesATime = 256
	// changeRounds bounds how often operations that changed since they were read are read again.
	changeRounds = 8
)

// each applies one change to every operation of the id (a command's or an
// operation's) that is in one of the states and that no other operation has taken
// over. What changes meanwhile is read and decided again; what is in another state
// then is left, as if it had been from the beginning.
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
	return p.changed, errors.Join(p.cutShort(err), d.c.Start(ctx, p.commandID))
}

// nothingChanged says why no operation was changed.
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

// cutShort is the error of a change that some of the operations have had, nil
// without one.
func (p *pending) cutShort(err error) error {
	if refused := (*command.RefusedError)(nil); errors.As(err, &refused) || errors.Is(err, ledger.ErrClaimed) {
		return command.Refuse("%d operations of %s were changed, and then: %v", p.changed, p.commandID, err)
	}
	if err != nil {
		return fmt.Errorf("%d operations of %s were changed, and then: %w", p.changed, p.commandID, err)
	}
	return nil
}

// pending is a change of many operations under way.
type pending struct {
	ledger *ledger.Ledger
	do     change
	states []fact.State

	commandID string
	of        fact.Ref        // the command
	done      map[string]bool // the operations that it changed, and those that it made
	now       []fact.State    // in which the operations were that it looked at last
	changed   int
}

// round changes what is in one of the states now, and says how many operations
// changed between its reading and its writing.
func (p *pending) round(ctx context.Context, what target) (moved int, err error) {
	records, of, err := operationsOf(ctx, p.ledger, what)
	if err != nil {
		return 0, err
	}
	p.commandID, p.of = records[0].CommandID, of
	all, err := p.ledger.OperationsOf(ctx, p.commandID)
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

// decided is a fact and the version of its operation that it was decided on.
type decided struct {
	id      string
	version int64
	fact    fact.Fact
}

// commit changes some operations, in one commit.
func (p *pending) commit(ctx context.Context, records []fact.Operation) (moved int, err error) {
	facts, err := p.decide(records)
	if err != nil {
		return 0, err
	}
	var written []decided
	err = p.ledger.Write(ctx, func(tx *ledger.Tx) error {
		moved, written = 0, nil // Write may run this twice
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

// finished keeps a later round from an operation that was changed, and from those
// that the change made.
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

// operationsOf is the operation of the id, or every operation of the command.
func operationsOf(ctx context.Context, l *ledger.Ledger, what target) (all []fact.Operation, of fact.Ref, err error) {
	id := what.id
	one, opErr := l.Operation(ctx, id)
	if what.as == inspect.AsCommand {
		opErr = ledger.ErrNotFound
	}
	accepted, err := l.Acceptance(ctx, id)
	if what.as == inspect.AsOperation {
		err = ledger.ErrNotFound
	}
	switch {
	case err == nil && opErr == nil:
		return nil, of, command.Refuse("%s is the id of a command, and of an operation of command %s: say which, with command_id or operation_id (--as command or --as operation)", id, one.CommandID)
	case opErr == nil:
		accepted, err := l.Acceptance(ctx, one.CommandID)
		return []fact.Operation{one}, accepted.Ref, err
	case errors.Is(err, ledger.ErrNotFound):
		return nil, of, command.RefuseUnknown("%s is not an accepted command or an operation: see `perennial operations list`", id)
	}
	if err != nil {
		return nil, of, err
	}
	records, err := l.OperationsOf(ctx, id)
	return records, accepted.Ref, err
}
