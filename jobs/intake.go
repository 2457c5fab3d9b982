package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sync/errgroup"

	"perennial/jobs/command"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/failpoint"
	"perennial/ledger/sleep"
	"perennial/ledger/tables"
	"perennial/queue"
	"perennial/queue/intake"
	"perennial/queue/letters"
)

// later is the redelivery delay of a command whose acceptance failed.
const later = 5 * time.Second

// batch is the largest number of commands accepted in one commit. Under load, the commands
// of a batch share the cost of its commit. A full batch delays the recording of results by
// about ten milliseconds.
const batch = 256

// intaker accepts commands from the stream into the ledger. A decision, its facts and its
// operations are written in one transaction.
type intaker struct {
	*Config
	gate          *rateGate
	pauses        *pauses
	ready         *ready
	binding       func() fact.Binding
	deadLetterLog *deadLetterLog
	loader        *loader
	checker       *checker
	attempts      *attempts

	taking atomic.Int64 // start of the current ledger write of commands, in Unix microseconds; 0 if there is none
}

// runIntake fetches only as many commands as can start soon; the others stay in JetStream.
// Each line (kind and priority) is read separately, so that a paused or full line does not
// block the others. A command is acknowledged after it is in the ledger. The next batch is
// read while the current batch is committed.
func (in *intaker) runIntake(ctx context.Context) error {
	arrivals := make(chan *arrival, batch)
	group, ctx := errgroup.WithContext(ctx)
	var reading sync.WaitGroup
	for _, line := range queue.Lines() {
		reading.Add(1)
		group.Go(func() error {
			defer reading.Done()
			return in.readLoop(ctx, line, arrivals)
		})
	}
	group.Go(func() error {
		reading.Wait()
		close(arrivals)
		return nil
	})
	group.Go(func() error { return in.acceptLoop(ctx, arrivals) })
	return group.Wait()
}

func placeOf(line queue.Line) place {
	return place{rowOf(KindOf(line.Kind)).lane, urgencyOf(command.Urgency(line.Priority))}
}

func (in *intaker) readLoop(ctx context.Context, line queue.Line, arrivals chan<- *arrival) error {
	for {
		limit, err := in.waitForRoom(ctx, line)
		if err != nil {
			return err
		}
		messages, err := in.Commands.Fetch(ctx, line, min(limit, batch))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("account %s: fetch commands: %w", in.Account, err)
		}
		failpoint.Reached(ctx, "intake.delivered")
		for i := range messages {
			if err := in.handOn(ctx, &messages[i], arrivals); err != nil {
				return err
			}
		}
	}
}

func (in *intaker) handOn(ctx context.Context, m *intake.Message, arrivals chan<- *arrival) error {
	a, err := in.read(ctx, m)
	if err != nil {
		return in.logFailedIntake(ctx, err)
	}
	if a == nil {
		return nil
	}
	in.ready.reserve(a.place())
	select {
	case arrivals <- a:
		return nil
	case <-ctx.Done():
		return errors.Join(ctx.Err(), in.putBack(a, 0))
	}
}

// acceptLoop writes the arrivals to the ledger until the channel closes. One commit includes
// all waiting arrivals, up to batch. Once ctx has ended, arrivals are returned for
// redelivery.
func (in *intaker) acceptLoop(ctx context.Context, arrivals <-chan *arrival) error {
	for first := range arrivals {
		batch := gather(first, arrivals)
		err := ctx.Err()
		if err == nil {
			in.taking.Store(time.Now().UnixMicro()) //nolint:forbidigo // measures a duration, which no fact contains
			err = in.acceptBatch(ctx, batch)
			in.taking.Store(0)
		} else {
			for _, a := range batch {
				err = errors.Join(err, in.putBack(a, 0))
			}
		}
		if err != nil && ctx.Err() == nil {
			_ = in.logFailedIntake(ctx, err) // fails only if ctx has ended, which also ends the reading
		}
	}
	return ctx.Err()
}

func gather(first *arrival, arrivals <-chan *arrival) []*arrival {
	taken := append(make([]*arrival, 0, batch), first)
	for len(taken) < batch {
		select {
		case a, ok := <-arrivals:
			if !ok {
				return taken
			}
			taken = append(taken, a)
		default:
			return taken
		}
	}
	return taken
}

func (in *intaker) logFailedIntake(ctx context.Context, err error) error {
	in.Log.WithError(err).Error("commands could not be taken in; they are delivered again")
	return sleep.For(ctx, time.Second)
}

// restAfter is how long the queue may have no room for the commands of a line (kind and
// priority). After that time, the line's prefetched messages return to the stream.
const restAfter = 2 * time.Second

// waitForRoom waits until the queue has room for commands of a line. It returns the number of
// commands that fit. If there is still no room after restAfter, the line's messages return to the
// stream.
func (in *intaker) waitForRoom(ctx context.Context, line queue.Line) (int, error) {
	timer := time.NewTimer(restAfter)
	defer timer.Stop()
	for {
		more := in.ready.moreRoom()
		if free := in.ready.free(placeOf(line)); free > 0 {
			return free, nil
		}
		select {
		case <-more:
		case <-timer.C:
			in.Commands.Rest(line)
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

type arrival struct {
	msg     *intake.Message
	kind    fact.Kind
	cmd     command.Command
	content []byte
	hash    string
	invalid *command.InvalidError

	token bool // a rate token was taken for a request that may be sent right after the commit

	jobs    []*job
	started bool   // the intent is committed and uses the token
	dead    string // the reason for a dead letter; "" for none

	trace    fact.Trace
	inbox    string // reply inbox from the headers; "" for none
	absorbed bool   // a duplicate, or content that was refused before
	conflict string // the reason for a conflict; "" for none
}

// Clears the results of an acceptance that was rolled back.
func (a *arrival) forget() {
	a.jobs, a.started, a.dead, a.absorbed, a.conflict = nil, false, "", false, ""
}

func (in *intaker) acceptBatch(ctx context.Context, arrivals []*arrival) error {
	in.takeTokens(arrivals)
	defer in.giveTokensBack(arrivals)
	err := in.Ledger.Write(ctx, func(tx *ledger.Tx) error {
		for _, a := range arrivals {
			if err := in.accept(tx, a); err != nil {
				return fmt.Errorf("command %q: %w", a.id(), err)
			}
		}
		failpoint.Reached(ctx, "intake.inside")
		return nil
	})
	if err != nil && len(arrivals) > 1 {
		return in.takeOneByOne(ctx, arrivals)
	}
	if err != nil {
		arrivals[0].forget()
		return errors.Join(err, in.putBack(arrivals[0], later))
	}
	failpoint.Reached(ctx, "intake.committed")
	err = in.ackBatch(ctx, arrivals)
	failpoint.Reached(ctx, "intake.acknowledged")
	return err
}

// takeOneByOne accepts each arrival in its own transaction, so that a command whose
// acceptance fails does not block the others.
func (in *intaker) takeOneByOne(ctx context.Context, arrivals []*arrival) error {
	var failed error
	for _, a := range arrivals {
		err := in.Ledger.Write(ctx, func(tx *ledger.Tx) error { return in.accept(tx, a) })
		if err != nil {
			a.forget()
			failed = errors.Join(failed, fmt.Errorf("command %q: %w", a.id(), err), in.putBack(a, later))
			continue
		}
		failed = errors.Join(failed, in.ackBatch(ctx, []*arrival{a}))
	}
	return failed
}

// ackBatch acknowledges the commands that are in the ledger. Commands that become dead
// letters are stored as such before they are acknowledged.
func (in *intaker) ackBatch(ctx context.Context, arrivals []*arrival) (failed error) {
	for _, a := range arrivals {
		if a.dead != "" {
			if err := in.bury(ctx, a.msg, letters.CodeRefused, a.dead); err != nil {
				failed = errors.Join(failed, fmt.Errorf("command %q: %w", a.id(), err), in.putBack(a, later))
				continue
			}
		}
		in.answer(a) // before the acknowledgement: if the runner stops in between, the command is delivered again
		if err := a.msg.Ack(); err != nil {
			in.Log.WithError(err).WithField("command_id", a.id()).Debug("the acknowledgement was lost: the command comes again and is absorbed")
		}
		if a.dead == "" && !a.absorbed {
			in.Taken(a.id(), a.kind, a.msg.Published)
		}
		in.ready.arrive(a.place(), a.jobs)
	}
	return failed
}

// A command that will get no command.finished event gets a reply in its inbox.
func (in *intaker) answer(a *arrival) {
	switch {
	case a.inbox == "":
	case a.dead != "":
		in.Answer(a.inbox, refusal(letters.CodeRefused, a.dead))
	case a.conflict != "":
		in.Answer(a.inbox, refusal("conflict", a.conflict))
	case a.absorbed:
		in.AnswerEnd(a.inbox, a.id())
	}
}

// Refusal is the reply to a command that is not executed and gets no command.finished
// event.
type Refusal struct {
	Error  string `json:"error" doc:"unreadable, conflict or refused."`
	Reason string `json:"reason" doc:"The reason, for people; the text may change."`
}

func refusal(code, reason string) []byte {
	text, _ := json.Marshal(Refusal{code, reason}) // strings only: cannot fail
	return text
}

// bury stores a message as a dead letter, because no fact can record its refusal.
func (in *intaker) bury(ctx context.Context, m *intake.Message, code, reason string) error {
	reason = fact.Bounded(reason)
	dead := letters.Dead{Code: code, Reason: reason, Subject: m.Subject, Data: m.Data, StreamSequence: m.StreamSequence, Published: m.Published}
	if err := in.DeadLetter(ctx, dead); err != nil {
		return fmt.Errorf("dead letter: %w", err)
	}
	in.deadLetterLog.add(m.StreamSequence, reason)
	in.deadLetterLog.log(in.Log, in.Clock())
	return nil
}

func (in *intaker) putBack(a *arrival, delay time.Duration) error {
	in.ready.arrive(a.place(), nil)
	return a.msg.Nak(delay)
}

// The place depends on the line on which the command arrived, even if the command itself sets
// another priority.
func (a *arrival) place() place {
	return placeOf(queue.Line{Kind: a.msg.Kind, Priority: a.msg.Priority})
}

func (a *arrival) id() string {
	if a.invalid != nil {
		return a.invalid.ID
	}
	return a.cmd.ID
}

// A message without a usable id is stored as a dead letter before it is acknowledged. For such a
// message, read returns nil, nil.
func (in *intaker) read(ctx context.Context, m *intake.Message) (*arrival, error) {
	a := &arrival{msg: m, kind: KindOf(m.Kind), inbox: queue.ReplyTo(m.Header), trace: fact.TraceOf(queue.Header(m.Header, "traceparent"), queue.Header(m.Header, "tracestate"))}
	if to := queue.Header(m.Header, queue.HeaderReplyTo); to != "" && a.inbox == "" {
		in.Log.WithField("stream_sequence", m.StreamSequence).Warnf("the command is not answered: its header %s names no inbox (_INBOX.…, of at most 200 bytes)", queue.HeaderReplyTo)
	}
	err := a.parse(command.Rules{Environment: in.Provider.Environment(), CIDRField: in.CIDRField})
	if unreadable, ok := errors.AsType[*command.UnreadableError](err); ok {
		if err := in.bury(ctx, m, letters.CodeUnreadable, unreadable.Reason); err != nil {
			return nil, err
		}
		if a.inbox != "" {
			in.Answer(a.inbox, refusal(letters.CodeUnreadable, unreadable.Reason))
		}
		return nil, m.Ack()
	}
	if err != nil { // not acknowledged, so the message is delivered again
		return nil, errors.Join(err, m.Nak(later))
	}
	return a, nil
}

// parse parses the message's command and determines its content hash. Invalid content is hashed
// as raw bytes. It is hashed as a command if an earlier version may have accepted it.
func (a *arrival) parse(rules command.Rules) (err error) {
	a.cmd, err = command.Parse(a.kind, a.msg.Data, rules)
	a.cmd.Trace = a.trace
	if errors.As(err, &a.invalid) && a.cmd.ID == "" {
		a.hash = command.MessageHash(a.msg.Data)
		return nil
	}
	if err != nil && a.invalid == nil {
		return err
	}
	if a.cmd.Priority == command.UrgencyNormal {
		a.cmd.Priority = command.Urgency(a.msg.Priority) // the line's priority, unless the command sets one
	}
	a.content, a.hash, err = a.cmd.Content()
	return err
}

// TakingSince returns the start of the current write of commands to the ledger. It returns zero
// if no write is in progress.
func (in *intaker) TakingSince() time.Time {
	if at := in.taking.Load(); at != 0 {
		return time.UnixMicro(at)
	}
	return time.Time{}
}

// accept decides whether a command is new, a duplicate, a conflict or refused, and writes the
// facts.
func (in *intaker) accept(tx *ledger.Tx, a *arrival) error {
	a.forget() // Write may run this function twice
	if a.hash == "" {
		return errors.New("a command came without its content's hash, so it cannot be compared with others")
	}
	known, err := tx.Known(a.id())
	if err != nil {
		return err
	}
	if known.AcceptedHash != "" {
		return acceptAgain(tx, a, known)
	}
	if known.RefusedHash == a.hash {
		a.absorbed = true // refused before, and the ledger has the fact
		return nil
	}
	if a.invalid != nil {
		return a.refuse(tx, fact.RejectedInvalid, a.invalid.Reason)
	}
	if a.cmd.NotAfter != nil && tx.Now().After(*a.cmd.NotAfter) && !in.pauses.mayRepeat(tx.Now()) {
		return a.refuse(tx, "not_after", "not_after had passed when the command came: nothing was sent")
	}
	return in.acceptNew(tx, a)
}

func (a *arrival) refuse(tx *ledger.Tx, code, reason string) error {
	return a.answerOnce(tx, a.rejected(code, reason), reason)
}

// answerOnce records a refusal or a conflict, once per content. The number of such facts per
// command id is limited, so that a producer cannot fill the journal under one id. Content
// over the limit becomes a dead letter.
func (a *arrival) answerOnce(tx *ledger.Tx, answer fact.Fact, reason string) error {
	before, contents, err := tx.RefusedContent(a.id(), a.hash)
	if err != nil || before {
		a.absorbed = true
		return err
	}
	if contents >= ledger.MaxRefusals {
		a.dead = fmt.Sprintf("%d other contents under the command's id were refused before: choose another id (%s)", contents, reason)
		return nil
	}
	return tx.Append(answer)
}

func (a *arrival) ref() fact.Ref {
	if a.invalid != nil {
		return fact.Ref{CommandID: a.invalid.ID, Labels: a.invalid.Labels, Trace: a.trace}
	}
	return fact.Ref{CommandID: a.cmd.ID, Labels: a.cmd.Labels, Trace: a.trace}
}

func (a *arrival) rejected(code, reason string) fact.CommandRejected {
	return fact.CommandRejected{
		Ref: a.ref(), ContentHash: a.hash, Code: code, Reason: fact.Bounded(reason), ReplyTo: a.inbox, StreamSequence: a.msg.StreamSequence,
	}
}

// acceptAgain handles a command whose id was accepted before. The same content is a
// duplicate; other content is a conflict, and the accepted content stays in force.
func acceptAgain(tx *ledger.Tx, a *arrival, known tables.Known) error {
	if known.Kind == a.kind && known.AcceptedHash == a.hash {
		a.absorbed = true
		return nil
	}
	reason := "the id was accepted before with other content, which remains: choose another id"
	if a.invalid != nil {
		reason += " (and this content would be refused: " + a.invalid.Reason + ")"
	}
	a.conflict = reason
	return a.answerOnce(tx, fact.CommandConflict{
		Ref: a.ref(), ContentHash: a.hash, AcceptedHash: known.AcceptedHash, Reason: fact.Bounded(reason), StreamSequence: a.msg.StreamSequence,
	}, reason)
}

func (in *intaker) acceptNew(tx *ledger.Tx, a *arrival) error {
	ids, skipped, err := unclaimed(tx, a.cmd)
	if err != nil {
		return err
	}
	if a.kind.OfProxies() && len(ids) == 0 {
		return a.refuse(tx, "claimed", "every proxy of it is being renewed, or in review, by another command: "+skipped[0].Reason)
	}
	planned := a.cmd.Operations(in.binding(), ids, in.loader.careful(a.cmd))
	p, atOnce, err := startsNow(tx, a, planned)
	if err != nil {
		return err
	}
	presumed := in.pauses.presumed(tx.Now())
	if presumed != (fact.Presumed{}) {
		atOnce = false // whether it is sent at all is decided first
	}
	made, err := tx.Accept(fact.CommandAccepted{
		Ref: a.ref(), Kind: a.kind, ContentHash: a.hash, Content: a.content, Presumed: presumed,
		DurationDays: a.cmd.DurationDays, Operations: planned, ReplyTo: a.inbox, StreamSequence: a.msg.StreamSequence,
	}, fact.Skipped(a.ref(), skipped, "other operations hold them")...)
	if err != nil {
		return err
	}
	a.jobs = in.jobsOf(a.cmd, planned, made)
	if atOnce {
		a.jobs[0], err = in.attempts.intend(tx, a.jobs[0], p)
		a.started = err == nil
	}
	return err
}

// startsNow reports whether the intent can be committed together with the acceptance. This
// requires that a.token is set, that the command has one operation, and that the expiry of
// each proxy is known. If so, p has the proxies and their expiries.
func startsNow(tx *ledger.Tx, a *arrival, planned []fact.Planned) (p checked, atOnce bool, err error) {
	if !a.token || len(planned) != 1 {
		return p, false, nil
	}
	p.ids = planned[0].ProxyIDs
	p.observed, atOnce, err = seenNow(tx, p.ids)
	return p, atOnce, err
}

// unclaimed divides a command's proxies: ids are the proxies that no operation has reserved, and
// skipped are those that other operations have reserved.
func unclaimed(tx *ledger.Tx, c command.Command) (ids []string, skipped []fact.SkippedProxy, err error) {
	for _, id := range c.ProxyIDs {
		holder, err := tx.Claimant(id)
		if err != nil {
			return nil, nil, err
		}
		if holder == "" {
			ids = append(ids, id)
			continue
		}
		skipped = append(skipped, fact.SkippedProxy{ProxyID: id, Code: fact.SkipClaimed, Reason: "operation " + holder + " holds it"})
	}
	return ids, skipped, nil
}

// careful reports whether a limit applies to a command. Its operations then run one by one, so that
// each decision includes the cost of the earlier operations.
func (q *loader) careful(c command.Command) bool { return c.MaxTotalCents > 0 || q.DailyLimitCents > 0 }

// oneByOne reports whether the operations of a command run one by one. While they may repeat
// requests that a restored ledger has lost, the reply to one decides on the others.
func (q *loader) oneByOne(c command.Command) bool {
	return q.careful(c) || q.pauses.mayRepeat(q.clock.Now())
}

// jobsOf returns the jobs that may start now. If they run one by one, this is only the first
// job.
func (in *intaker) jobsOf(c command.Command, planned []fact.Planned, made []fact.Operation) []*job {
	if len(made) > bulkOperations && c.Priority == command.UrgencyNormal {
		c.Priority = command.UrgencyBulk
	}
	if in.loader.oneByOne(c) {
		made = made[:1]
	}
	jobs := make([]*job, 0, len(made))
	for i, o := range made {
		jobs = append(jobs, in.loader.job(o, c, planned[i].ProxyIDs))
	}
	return jobs
}

// takeTokens takes a rate token for each command whose intent may be committed with its
// acceptance. Such a command needs no read first, and no pause blocks it. takeTokens runs
// before Write, because Write may run its function twice or roll it back.
func (in *intaker) takeTokens(arrivals []*arrival) {
	for _, a := range arrivals {
		j := job{lane: a.place().lane, cmd: a.cmd}
		a.token = a.invalid == nil && len(a.cmd.ProxyIDs) <= command.ChunkSize && !in.loader.careful(a.cmd) && !a.cmd.Guarded() &&
			in.checker.cannotBuild(&j) == nil && !in.pauses.blocked(j.lane) && in.gate.TryPass()
	}
}

func (in *intaker) giveTokensBack(arrivals []*arrival) {
	for _, a := range arrivals {
		if a.token && !a.started {
			in.gate.GiveBack()
		}
		a.token = false
	}
}

// deadLetterLogEvery is the minimum interval between two log entries about dead letters. It
// keeps a faulty producer from filling the log.
const deadLetterLogEvery = time.Minute

type deadLetterLog struct {
	mu     sync.Mutex
	count  int
	first  uint64 // sequence in the commands stream
	reason string
	said   time.Time
}

func (d *deadLetterLog) add(seq uint64, reason string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.count++; d.count == 1 {
		d.first, d.reason = seq, reason
	}
}

func (d *deadLetterLog) log(log *logrus.Entry, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.count == 0 || now.Sub(d.said) < deadLetterLogEvery {
		return
	}
	log.WithField("stream_sequence", d.first).WithField("messages", d.count).Warn("dead letter: " + d.reason)
	d.count, d.said = 0, now
}
