package desk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"perennial/jobs/command"
	"perennial/jobs/inspect"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/upstream"
)

// Config configures a Desk. All fields are required.
type Config struct {
	Ledger   *ledger.Ledger
	Binding  func() fact.Binding
	Now      func() time.Time // the machine's clock, which the provider's time is compared with
	Readable func() error     // returns why the provider must not be read now, or nil
	Evidence func(ctx context.Context, operationID string) (inspect.Evidence, error)
	Order    OrderReader
	// Delivered is called with an order that was read. The argument from is the time of the
	// request.
	Delivered func(ctx context.Context, operationID string, from time.Time, order upstream.Order)
	// MaySendAgain returns an error while the operation's last request may still arrive, because
	// a request under a new key could pay a second time.
	MaySendAgain func(context.Context, fact.Operation) error
	// Presumed says whether operations that are made now may have been sent before a restore.
	Presumed func(now time.Time) fact.Presumed
	// MayRepeat reports whether the time that a restored ledger has lost is not explained yet.
	MayRepeat func(now time.Time) bool
	// Start queues the accepted operations of a command that have not started.
	Start func(ctx context.Context, commandID string)
	// Answered is called after each answer to a review.
	Answered func()
}

// Desk changes commands and operations for operators.
type Desk struct{ c Config }

// New returns a Desk.
func New(c Config) *Desk { return &Desk{c} }

type signature struct{ by, reason string }

func (x signature) check() error { return CheckSigned(x.by, x.reason) }

// CheckSigned returns a RefusedError if the name or reason is missing or invalid.
func CheckSigned(by, reason string) error {
	if strings.TrimSpace(by) == "" || strings.TrimSpace(reason) == "" {
		return command.Refuse("a change needs a name and a reason: say who asks for it, and why (--by, --reason)")
	}
	if fact.ClaimsUser(by) {
		return command.Refuse("%.40q says what the NATS server says: give the name alone, the NATS user is added", by)
	}
	return checkWords(by, reason)
}

// checkWords returns a RefusedError for text that is too long, or that a terminal or log
// cannot show on one line.
func checkWords(words ...string) error {
	for _, w := range words {
		if len(w) > maxWords {
			return command.Refuse("name, reason and order number may have %d bytes each", maxWords)
		}
		if why := fact.Unprintable(w); why != "" {
			return command.Refuse("%.40q %s: write name, reason and order number on one line", w, why)
		}
	}
	return nil
}

// Release ends the hold of a command's operations, so that they can be sent. It returns the
// number of operations released. id is the id of a command or of an operation. If both have this
// id, the argument as selects one.
func (d *Desk) Release(ctx context.Context, id, by, reason string, as ...inspect.As) (int, error) {
	return d.each(ctx, "released", targetOf(id, as), signature{by, reason}, func(_ fact.Operation, ref fact.Ref) (fact.Fact, error) {
		return fact.CommandReleased{Ref: ref, By: by, Reason: reason, User: fact.UserOf(ctx)}, nil
	}, fact.StateHeld)
}

// Cancel cancels operations that are on hold, queued or waiting for a retry. It cannot
// cancel an operation with an attempt that may have executed. It returns the number of
// operations cancelled.
func (d *Desk) Cancel(ctx context.Context, id, by, reason string, as ...inspect.As) (int, error) {
	unsure := ""
	n, err := d.each(ctx, "cancelled", targetOf(id, as), signature{by, reason}, func(o fact.Operation, ref fact.Ref) (fact.Fact, error) {
		if o.Ambiguous > 0 || d.c.MayRepeat(d.c.Now()) {
			unsure = o.ID
			return nil, errLeaveAlone
		}
		return fact.CommandCancelled{Ref: ref, By: by, Reason: reason, User: fact.UserOf(ctx)}, nil
	}, fact.StateHeld, fact.StateAccepted, fact.StateWaiting)
	if refused := (*command.RefusedError)(nil); unsure != "" && n == 0 && errors.As(err, &refused) {
		return 0, command.Refuse("%s may have been sent and executed: it cannot be withdrawn", unsure)
	}
	return n, err
}

// Retry repeats operations that ended without a charge: refused by the provider, or in review and
// answered as not charged. Each becomes a new operation under
// a new generation of the key. It returns the number of operations repeated.
func (d *Desk) Retry(ctx context.Context, id, by, reason string, as ...inspect.As) (int, error) {
	return d.retry(ctx, targetOf(id, as), signature{by, reason}, func(fact.Operation) error { return nil })
}

// RetryUnrepeated is Retry for operations that a filter selected and no operator checked
// individually. It refuses cancelled operations and those that were retried before. It also
// refuses a renewal if a later command has renewed, or may renew, one of its proxies.
func (d *Desk) RetryUnrepeated(ctx context.Context, id, by, reason string, as ...inspect.As) (int, error) {
	return d.retry(ctx, targetOf(id, as), signature{by, reason}, func(o fact.Operation) error {
		switch {
		case o.Code == fact.CodeCancelled:
			return command.Refuse("%s was cancelled", o.ID)
		case o.Generation > 1:
			return command.Refuse("%s was asked again before, and refused again", o.ID)
		case !o.Kind.OfProxies():
			return nil
		}
		return d.unrenewed(ctx, o)
	})
}

const maxLaterChecked = 100

// unrenewed returns a RefusedError if a later operation has renewed, or may renew, a proxy
// of this operation. It returns errLeaveAlone if a line was answered and sent again by itself.
func (d *Desk) unrenewed(ctx context.Context, o fact.Operation) error {
	lines, err := d.c.Ledger.Operations.Lines(ctx, o.ID)
	if err != nil {
		return err
	}
	for _, x := range lines {
		if x.State != fact.LineNotCharged {
			continue
		}
		later, err := d.c.Ledger.Operations.NamedAfter(ctx, x.ProxyID, o, maxLaterChecked)
		if err != nil {
			return err
		}
		for _, l := range later {
			if o.State == fact.StateResolved && l.CommandID == o.CommandID {
				return errLeaveAlone
			}
			if l.State != fact.StateRejected && l.State != fact.StateFailed {
				return command.Refuse("%s: a later command, %s, renews %s and is %s", o.ID, l.CommandID, x.ProxyID, l.State)
			}
		}
	}
	return nil
}

func (d *Desk) retry(ctx context.Context, of target, by signature, may func(fact.Operation) error) (int, error) {
	charged := ""
	n, err := d.each(ctx, "retried", of, by, func(o fact.Operation, ref fact.Ref) (fact.Fact, error) {
		if o.State == fact.StateResolved && (!inspect.MayGoAgain(o) || o.Kind.MakesOrder() && o.ChargedCents > o.RefundedCents) {
			charged = o.ID
			return nil, errLeaveAlone
		}
		if err := errors.Join(may(o), d.stillNotCharged(ctx, o)); err != nil {
			return nil, err
		}
		next, err := inspect.NextGeneration(ctx, d.c.Ledger, d.c.Binding(), o, fact.LineNotCharged)
		if err != nil {
			return nil, err
		}
		reason := by.reason
		switch {
		case o.Reason == "":
		case o.State == fact.StateResolved:
			reason = fact.Bounded(reason + "; it had been answered: " + o.Reason)
		default: // keep the reason of the first refusal
			reason = fact.Bounded(reason + "; it had been refused: " + o.Reason)
		}
		return fact.OperationResolved{
			Ref: ref, By: by.by, Reason: reason, User: fact.UserOf(ctx), Outcome: "not_charged", SendAgain: []fact.Planned{next.Planned}, DurationDays: next.Days, Presumed: d.c.Presumed(d.c.Now()),
		}, nil
	}, fact.StateRejected, fact.StateResolved)
	if refused := (*command.RefusedError)(nil); charged != "" && n == 0 && errors.As(err, &refused) {
		return 0, command.Refuse("%s was charged: only what was not charged can be retried", charged)
	}
	return n, err
}

// stillNotCharged returns a RefusedError if a review was answered as not charged, and the provider
// shows otherwise by now, or cannot be asked. The same holds for an operation that was refused, if it
// may have been paid in the time that a restored ledger has lost.
func (d *Desk) stillNotCharged(ctx context.Context, o fact.Operation) error {
	if o.State == fact.StateResolved {
		if err := errors.Join(d.c.MaySendAgain(ctx, o), d.unrenewed(ctx, o)); err != nil {
			return err
		}
	} else if !d.c.MayRepeat(d.c.Now()) {
		return nil
	}
	e, err := d.c.Evidence(ctx, o.ID)
	if err != nil {
		return err
	}
	shown, unread := e.ChargedSince()
	switch {
	case len(shown) > 0 && o.State == fact.StateRejected:
		return command.Refuse("%s was perhaps charged in the time that the restored ledger has lost: %s. If it was, record it: `perennial ledger record --kind charge --operation %s`. If not, publish a new command", o.ID, strings.Join(shown, "; "), o.ID)
	case len(shown) > 0:
		return command.Refuse("the evidence says that %s was charged, against its answer: %s. See `perennial reviews correct --help`", o.ID, strings.Join(shown, "; "))
	case unread != "":
		return command.Refuse("%s, so %s may have been charged, and a retry could pay twice. Try again later", unread, o.ID)
	}
	return nil
}

var errLeaveAlone = errors.New("left alone")

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

// A change returns the fact that changes one operation. It returns errLeaveAlone if the operation
// must stay unchanged.
type change func(fact.Operation, fact.Ref) (fact.Fact, error)

const (
	// changesATime limits how many operations one commit changes. A command may have
	// thousands, and the writer must serve other requests between the commits.
	changesATime = 256
	// changeRounds limits how often operations that changed during the request are read again.
	changeRounds = 8
)

// Applies a change to one operation, or to all operations of a command. It returns the number of
// operations that it changed. It skips operations that are in none of the given states, and
// operations that another operation has replaced. If an operation changes before the write, it is
// read and decided again.
func (d *Desk) each(ctx context.Context, done string, of target, by signature, do change, states ...fact.State) (int, error) {
	if err := by.check(); err != nil {
		return 0, err
	}
	p := &pending{ledger: d.c.Ledger, do: do, states: states, verb: done, done: map[string]bool{}}
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
	return command.Refuse("%s is %s: only operations that are %s can be %s", id, statesText(p.now, "and"), statesText(p.states, "or"), p.verb)
}

func (p *pending) cutShort(err error) error {
	if refused := (*command.RefusedError)(nil); errors.As(err, &refused) || errors.Is(err, ledger.ErrClaimed) {
		return command.Refuse("%d operations of %s were changed, and then: %v", p.changed, p.commandID, err)
	}
	if err != nil {
		return fmt.Errorf("%d operations of %s were changed, and then: %w", p.changed, p.commandID, err)
	}
	return nil
}

type pending struct {
	ledger *ledger.Ledger
	do     change
	states []fact.State
	verb   string // past participle of the change, such as "cancelled"

	commandID string
	of        fact.Ref        // the command
	done      map[string]bool // operations that were changed, and those that the change created
	now       []fact.State    // states of the operations last read
	changed   int
}

// One round changes the operations that are in one of the states. moved is the number of
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

// An operation that was changed, and the operations that the change created, are marked, so that
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
