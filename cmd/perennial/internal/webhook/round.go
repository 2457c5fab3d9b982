package webhook

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"net/http"
	"slices"
	"time"

	"perennial/ledger/sleep"
	"perennial/queue/events"
	"perennial/queue/positions"
)

const (
	// The wait between two attempts for an event is random, up to a limit. The limit doubles
	// from retryFirst to retryMost.
	retryFirst, retryMost = time.Second, 5 * time.Minute
	// retryLeast is the shortest wait between two attempts for an event.
	retryLeast = 50 * time.Millisecond
	// saveEvery is the shortest interval between two writes of the position.
	saveEvery = time.Second
	// stopGrace is how long a stopping sink waits for attempts in progress.
	stopGrace = 5 * time.Second
	// stuckAfter is the number of failed attempts for one event after which the failure is
	// logged.
	stuckAfter = 3
)

// errHistory means that an event does not contain the hash of the previous event.
var errHistory = errors.New("the account's history was changed while it was read")

type attempt struct {
	event *event
	reply Reply
}

type saved struct {
	revision uint64
	err      error
}

// round is the state of one session. Only the goroutine that calls run uses it.
type round struct {
	*Sink

	window  *window
	resumed positions.Position // position at the start of the session
	skip    map[uint64]bool    // sequences of undelivered events up to resumed.Read; all other events up to it are delivered

	send     context.Context //nolint:containedctx // context of the attempts, which may continue for a moment after a stop
	cut      context.CancelFunc
	attempts chan attempt
	sending  int
	repeats  int       // how many of the attempts in sending are retries
	quiet    time.Time // no attempt starts before this time, which the endpoint requested
	stuck    int       // number of events with stuckAfter or more failed attempts

	stored   positions.Position
	revision uint64
	dirty    bool
	saves    chan saved
	saving   bool
	nextSave time.Time
}

func newRound(s *Sink, p positions.Position, revision uint64) *round {
	r := &round{Sink: s, window: newWindow(p.Mark), resumed: p, skip: map[uint64]bool{}, stored: p, revision: revision,
		attempts: make(chan attempt, s.Concurrency), saves: make(chan saved, 1)}
	for _, seq := range p.Undelivered {
		r.skip[seq] = true
	}
	return r
}

// run delivers events until ctx ends or an error ends the session. It returns the reason.
func (r *round) run(ctx context.Context, events <-chan events.Event, ended <-chan error) (err error) {
	r.send, r.cut = context.WithCancel(context.WithoutCancel(ctx))
	defer r.cut()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for err == nil {
		r.dispatch()
		r.save(ctx)
		r.show()
		timer.Reset(r.untilNext())
		from := events
		if r.window.full() {
			from = nil
		}
		select {
		case e := <-from:
			err = r.take(e)
		case a := <-r.attempts:
			err = r.attempted(a)
		case x := <-r.saves:
			err = r.wasSaved(x)
		case <-r.wake:
			err = r.moved()
		case <-timer.C:
		case err = <-ended:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	switch {
	case errors.Is(err, errGone):
		r.end(ctx, err.Error())
	case ctx.Err() != nil:
		r.end(ctx, "")
	default:
		r.abandon()
	}
	return err
}

// take accepts an event from the stream. It skips an event that was delivered earlier, is not
// wanted or cannot be read. It also skips an event without a journal sequence, because another
// program published that event. It returns errHistory if an event, wanted or not, does not
// follow the previous event.
func (r *round) take(e events.Event) error {
	mark, before := positions.Mark{Seq: e.StreamSeq, Hash: e.Hash}, r.window.read
	if e.StreamSeq > before.Seq+1 {
		r.Log.WithField("was_seq", before.Seq).WithField("stream_seq", e.StreamSeq).Error("events between these were removed from the stream before the webhook had delivered them")
	}
	r.dirty = true
	if e.Seq == 0 {
		r.window.pass(mark)
		return nil
	}
	x, err := parse(e)
	if err == nil && before.Hash != "" && x.Seq == before.Seq+1 && x.prev != before.Hash {
		return fmt.Errorf("event %d: %w", x.Seq, errHistory)
	}
	known := e.StreamSeq <= r.resumed.Read.Seq && !r.skip[e.StreamSeq]
	switch wanted := !known && r.Wants(e.Type); {
	case !wanted:
		r.window.pass(mark)
	case err != nil:
		r.Log.WithError(err).WithField("stream_seq", e.StreamSeq).Error("an event cannot be read, and is not sent to the webhook")
		r.window.pass(mark)
	default:
		r.window.add(x)
	}
	return nil
}

// dispatch starts attempts, up to the concurrency limit.
func (r *round) dispatch() {
	now := r.Clock()
	for r.sending < r.Concurrency && !r.quiet.After(now) {
		x := r.window.next(now, r.mayRetry())
		if x == nil {
			return
		}
		if r.sending++; x.attempts > 0 {
			r.repeats++
		}
		go func() { r.attempts <- attempt{x, r.endpoint.Send(r.send, x.id, x.body)} }()
	}
}

// mayRetry reports whether a retry may start. Half of the parallel attempts, rounded down, are
// reserved for first attempts.
func (r *round) mayRetry() bool { return r.repeats < (r.Concurrency+1)/2 }

func (r *round) attempted(a attempt) error {
	if r.sending--; a.event.attempts > 0 {
		r.repeats--
	}
	if r.Attempted != nil {
		r.Attempted(a.reply)
	}
	r.dirty = true
	x := a.event
	x.attempts++
	switch a.reply.Outcome {
	case Delivered:
		r.window.delivered(x)
		if x.attempts > stuckAfter {
			if r.stuck--; r.stuck == 0 {
				r.Log.Info("the webhook delivers again")
			}
		}
		return nil
	case Gone:
		r.window.failed(x, r.Clock(), a.reply.Reason)
		return errGone
	case Refused, RateLimited, Failed, Unreachable:
	}
	now := r.Clock()
	if a.reply.Outcome == RateLimited || a.reply.Status == http.StatusServiceUnavailable { // their Retry-After applies to the whole endpoint
		r.quiet = later(r.quiet, now.Add(a.reply.RetryAfter))
	}
	why := a.reply.Reason
	if a.reply.RetryAfter > 0 {
		why += ", and it asks to wait until " + now.Add(a.reply.RetryAfter).UTC().Format(time.RFC3339)
	}
	held := min(a.reply.Took*time.Duration(x.attempts), retryMost) // the longer an attempt took, the longer the wait
	r.window.failed(x, now.Add(max(a.reply.RetryAfter, r.delay(x), held)), why)
	if x.attempts == stuckAfter {
		if r.stuck++; r.stuck == 1 {
			r.Log.WithField("error", a.reply.Reason).WithField("url", r.endpoint.Host()).Warn("the webhook cannot deliver now; it is tried again, with waits up to 5 minutes")
		}
	}
	return nil
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

func (r *round) delay(x *event) time.Duration {
	if x.delays == nil {
		x.delays = sleep.Doubling(retryFirst, retryMost)
	}
	return max(time.Duration(r.Random()*float64(x.delays.Next())), retryLeast)
}

// untilNext returns how long run may wait before it must start an attempt or write the
// position, at most an hour.
func (r *round) untilNext() time.Duration {
	next := r.Clock().Add(time.Hour)
	if r.dirty && !r.saving {
		next = r.nextSave
	}
	due := r.window.nextDue()
	if len(r.window.fresh)+len(r.window.proven) > 0 {
		due = r.quiet
	} else if !r.mayRetry() {
		due = time.Time{} // no retry can start before an attempt ends
	}
	if r.sending < r.Concurrency && !due.IsZero() && later(due, r.quiet).Before(next) {
		next = later(due, r.quiet)
	}
	return max(next.Sub(r.Clock()), time.Millisecond)
}

// position returns the position to store. ok is false until this session has read every event
// that the previous session read. A position stored earlier would forget which of these events
// the previous session delivered.
func (r *round) position() (p positions.Position, ok bool) {
	p = r.window.position()
	p.Marks = thinMarks(r.stored.Marks, r.stored.Mark, p.Seq)
	if p.NextAttempt != nil {
		p.NextAttempt = new(later(*p.NextAttempt, r.quiet))
	}
	return p, p.Read.Seq >= r.resumed.Read.Seq
}

func (r *round) save(ctx context.Context) {
	now := r.Clock()
	if !r.dirty || r.saving || now.Before(r.nextSave) {
		return
	}
	r.dirty, r.nextSave = false, now.Add(saveEvery)
	p, ok := r.position()
	if !ok {
		return
	}
	r.saving, r.stored = true, p
	revision := r.revision
	go func() {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), positionTimeout)
		defer cancel()
		var x saved
		x.revision, x.err = r.Positions.Save(limited, p, revision)
		r.saves <- x
	}()
}

func (r *round) wasSaved(x saved) error {
	r.saving = false
	if x.err != nil {
		return x.err
	}
	r.revision = x.revision
	p := r.stored
	r.last = &p
	return r.moved()
}

func (r *round) moved() error {
	if !r.saving && r.written.Load() > r.revision {
		return positions.ErrMoved
	}
	return nil
}

func (r *round) show() {
	r.setStats(Stats{Running: true, Read: max(r.window.read.Seq, r.resumed.Read.Seq), Undelivered: r.window.undelivered.Len(), Oldest: r.window.oldest()})
}

// end waits for the attempts in progress and stores the position. No new attempts start. If
// delivery continues only after a restart of the runner, stopped is the reason. Otherwise
// stopped is "".
func (r *round) end(ctx context.Context, stopped string) {
	grace := time.AfterFunc(stopGrace, r.cut)
	defer grace.Stop()
	for r.sending > 0 || r.saving {
		select {
		case a := <-r.attempts:
			if errors.Is(r.attempted(a), errGone) {
				r.stop()
				stopped = errGone.Error()
			}
		case x := <-r.saves:
			if errors.Is(r.wasSaved(x), positions.ErrMoved) {
				return // another client has changed the position
			}
		}
	}
	p, ok := r.position()
	if !ok || slices.Equal(p.Undelivered, r.stored.Undelivered) && p.Read == r.stored.Read && stopped == "" {
		return
	}
	if p.Stopped = stopped; stopped != "" {
		p.NextAttempt = nil
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
	defer cancel()
	if _, err := r.Positions.Save(limited, p, r.revision); err != nil {
		r.Log.WithError(err).Warn("the webhook's position could not be written at the end; what it delivered in the last second is delivered again")
	}
	r.last = &p
}

func (r *round) abandon() {
	r.cut()
	for r.sending > 0 {
		<-r.attempts
		r.sending--
	}
	if r.saving {
		<-r.saves
		r.saving = false
	}
}

// The values of [Sink.From]: where a new webhook begins.
const (
	FromNow   = "now"   // after the last event at the webhook's first start
	FromStart = "start" // at the first event in the stream
)

// open loads or creates the position, corrects it if the history was cut, and stores it. It
// returns the position where delivery continues.
func (s *Sink) open(ctx context.Context) (p positions.Position, revision uint64, err error) {
	s.written.Store(0) // revisions in a recreated bucket begin at 1 again
	p, revision, err = s.Positions.Load(ctx)
	if err != nil {
		return p, 0, err
	}
	if revision == 0 {
		if p, err = s.begin(ctx, p); err != nil {
			return p, 0, err
		}
	}
	if p.By != "" {
		s.Log.WithField("by", p.By).WithField("reason", p.Reason).WithField("stream_seq", p.Seq).Info("the webhook's position was moved by a person")
	}
	p.By, p.Reason, p.Stopped, p.LastError, p.NextAttempt = "", "", "", s.fault, nil
	if p, err = s.resumeAt(ctx, p); err != nil {
		return p, 0, err
	}
	revision, err = s.Positions.Save(ctx, p, revision)
	return p, revision, err
}

// begin returns the first position of a webhook that has no stored position. kept is the local
// copy of a position; it may be empty. If there is a copy, or this process has stored a position
// before, then NATS has lost the stored position. Delivery continues at the known position.
func (s *Sink) begin(ctx context.Context, kept positions.Position) (p positions.Position, err error) {
	if s.last != nil {
		kept = *s.last
	}
	if s.last != nil || kept.Read.Seq > 0 {
		s.Log.WithField("stream_seq", kept.Seq).Warn("the webhook's position is gone from NATS, and is written again")
		return kept, nil
	}
	first, last, err := s.Events.Ends(ctx)
	if err != nil {
		return p, err
	}
	if p.Seq = max(first, 1) - 1; s.From != FromStart {
		p.Seq = last
	}
	if p.Seq > 0 {
		if p.Hash, _, err = s.Events.HashAt(ctx, p.Seq); err != nil {
			return p, err
		}
	}
	p.Read = p.Mark
	s.Log.WithField("stream_seq", p.Seq).Info("the webhook is new, and begins after this event")
	return p, nil
}

// resumeAt returns the position where delivery continues. After a restore that lost rows, new
// rows get the sequences of the lost rows. The delivered events may therefore differ from the
// account's history. In that case, delivery continues after the newest mark that is in both.
// Comparing the mark's hash is enough, because a row's hash covers all earlier rows.
func (s *Sink) resumeAt(ctx context.Context, p positions.Position) (positions.Position, error) {
	_, last, err := s.Events.Ends(ctx)
	if err != nil {
		return p, err
	}
	agrees := func(m positions.Mark) (bool, error) {
		if m.Seq == 0 || m.Hash == "" { // an empty mark agrees with any history
			return true, nil
		}
		hash, found, err := s.Events.HashAt(ctx, m.Seq)
		if err == nil && !found { // the event was archived, which does not mean that the history differs
			return m.Seq <= last, nil
		}
		return hash == m.Hash, err
	}
	if same, err := agrees(p.Read); err != nil || same {
		return p, err
	}
	for _, m := range slices.Backward(append(slices.Clone(p.Marks), p.Mark)) {
		same, err := agrees(m)
		if err != nil {
			return p, err
		}
		if same {
			return s.rewind(p, m), nil
		}
	}
	return s.rewind(p, positions.Mark{}), nil
}

// rewind moves the position back to a mark. The events delivered after the mark belong to a
// different history.
func (s *Sink) rewind(p positions.Position, m positions.Mark) positions.Position {
	s.Log.WithField("stream_seq", m.Seq).WithField("was_seq", p.Read.Seq).
		Warn("the account's history is another one after this event, as after a restore: the webhook delivers what follows it, also what it may have delivered before")
	marks := slices.DeleteFunc(slices.Clone(p.Marks), func(x positions.Mark) bool { return x.Seq >= m.Seq })
	return positions.Position{Mark: m, Read: m, Marks: marks, LastError: p.LastError}
}

// thinMarks drops some of the older marks. It groups the marks by their distance from the
// sequence in the parameter now. The distances form ranges that double in size. It keeps the
// oldest mark of each group, so some forty marks cover any journal.
func thinMarks(marks []positions.Mark, was positions.Mark, now uint64) []positions.Mark {
	var kept []positions.Mark
	taken := map[int]bool{}
	for _, m := range append(slices.Clone(marks), was) {
		if m.Seq == 0 || m.Hash == "" || m.Seq >= now {
			continue
		}
		if distance := bits.Len64(now - m.Seq); !taken[distance] {
			taken[distance] = true
			kept = append(kept, m)
		}
	}
	return kept
}
