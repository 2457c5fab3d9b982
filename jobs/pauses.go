package jobs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"perennial/jobs/command"
	"perennial/jobs/decide"
	"perennial/jobs/desk"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/sleep"
	"perennial/ledger/tables"
	"perennial/upstream"
)

// pauses caches the ledger's pauses for the workers.
type pauses struct {
	now     func() time.Time
	changed func()

	mu  sync.Mutex
	all map[pauseKey]tables.Pause
	// unrecorded has the pauses that are in force but not yet in the ledger.
	unrecorded map[pauseKey]decide.Pause
	dropped    time.Time // when a pause was last removed
	// closed is true while the wallet is read. Meanwhile no new request that charges is sent.
	// closed is not a pause: no fact records it, and no probe ends it.
	closed bool

	lost         atomic.Pointer[lostTime] // nil unless an operator resumed the account in doubt
	compared     chan struct{}            // closed after the first comparison with the provider's lists after a restore
	comparedOnce sync.Once
	renewed      atomic.Pointer[map[string]*time.Time] // see findings.renewed; nil before a read after a restore
}

type pauseKey struct{ scope, cause string }

func newPauses(now func() time.Time) *pauses {
	return &pauses{now: now, changed: func() {}, compared: make(chan struct{}), all: map[pauseKey]tables.Pause{}, unrecorded: map[pauseKey]decide.Pause{}}
}

func (p *pauses) load(ctx context.Context, l *ledger.Ledger) error {
	stored, err := l.Operations.Pauses(ctx)
	if err != nil {
		return err
	}
	for _, x := range stored {
		p.put(x)
	}
	f, at, err := l.Operations.Resumed(ctx)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil
	}
	if err == nil {
		p.doubt(f, at)
	}
	return err
}

// keysKept is how long the provider keeps the key of a completed request (customer-api.md,
// Idempotency). A command may repeat a request of the lost time for so long after the resume.
const keysKept = 24 * time.Hour

// lostTime is the time of which a restored ledger may have lost requests. Commands that arrive
// before until may repeat such a request.
type lostTime struct {
	since, until  time.Time
	schedulesFrom time.Time // schedules plan again from then
	appID         string
	renewed       map[string]*time.Time // see findings.renewed
	review        bool                  // what may have been paid in the lost time is not sent
	partial       bool                  // renewed lacks proxies, because the fact has no more
}

// doubt notes that an operator resumes the account although the lost time is not explained.
func (p *pauses) doubt(f fact.AccountResumed, at time.Time) {
	lost := &lostTime{since: *f.LostSince, until: at.Add(keysKept), appID: f.PresumeSentBy, renewed: map[string]*time.Time{}, review: f.ReviewLost}
	if f.PresumeUntil != nil {
		lost.until = *f.PresumeUntil
	}
	if f.SchedulesFrom != nil {
		lost.schedulesFrom = *f.SchedulesFrom
	}
	old := p.earlier(at)
	maps.Copy(lost.renewed, p.allRenewed())
	for _, x := range f.Renewed {
		lost.renewed[x.ProxyID] = &x.ExpiresAt
	}
	for _, id := range f.Unseen {
		lost.renewed[id] = nil
	}
	lost.partial = old != nil && old.partial || max(len(f.Renewed), len(f.Unseen)) == renewedMost && len(lost.renewed) == len(f.Renewed)+len(f.Unseen)
	p.lost.Store(lost)
}

// awaitCompared waits a moment for the first comparison with the provider's lists, so that a person who
// resumes the account at once does not forget what was renewed in the lost time.
func (p *pauses) awaitCompared(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, comparedWithin)
	defer cancel()
	select {
	case <-p.compared:
	case <-limited.Done():
	}
}

const comparedWithin = 3 * time.Second

// earlier returns the lost time of the last restore that was resumed in doubt, while the doubt lasts.
func (p *pauses) earlier(now time.Time) *lostTime {
	if lost := p.lost.Load(); lost != nil && now.Before(lost.until) {
		return lost
	}
	return nil
}

// allRenewed returns findings.renewed of this restore, and of an earlier one whose doubt is in force.
func (p *pauses) allRenewed() map[string]*time.Time {
	all := map[string]*time.Time{}
	if found := p.renewed.Load(); found != nil {
		maps.Copy(all, *found)
	}
	if lost := p.earlier(p.now()); lost != nil {
		for id, at := range lost.renewed {
			if at != nil || all[id] == nil {
				all[id] = at
			}
		}
	}
	return all
}

// noteRenewed writes some of allRenewed into the fact that ends the pause.
func (p *pauses) noteRenewed(f *fact.AccountResumed) {
	all := p.allRenewed()
	for _, id := range slices.Sorted(maps.Keys(all)) {
		at := all[id]
		switch {
		case at != nil && len(f.Renewed) < renewedMost:
			f.Renewed = append(f.Renewed, fact.Renewed{ProxyID: id, ExpiresAt: *at})
		case at == nil && f.ReviewLost && len(f.Unseen) < renewedMost:
			f.Unseen = append(f.Unseen, id)
		}
	}
}

const renewedMost = 2000 // ids of each list in the fact that resumes the account

// renewedOf returns those of the proxies that were renewed in the lost time. If review is set, what
// may have been paid in that time needs review, and renewed has every proxy that may have been
// renewed.
func (p *pauses) renewedOf(ids []string) (renewed []string, review bool) {
	lost := p.lost.Load()
	if lost == nil {
		return nil, false
	}
	for _, id := range ids {
		at, listed := lost.renewed[id]
		if at != nil || lost.review && (listed || lost.partial) {
			renewed = append(renewed, id)
		}
	}
	return renewed, lost.review
}

// mayRepeat reports whether a command that arrives now may repeat a request that a restored ledger
// has lost.
func (p *pauses) mayRepeat(now time.Time) bool {
	_, paused := p.restored()
	return paused || p.presumed(now) != fact.Presumed{}
}

// presumed says whether operations that are made now may repeat a request that a restored ledger
// has lost. Until the pause after the restore ends, it is empty: the end of the pause counts.
//
// decide.Window begins with the lost time. If that is too long ago, it begins now, because the
// operator has decided to send all the same.
func (p *pauses) presumed(now time.Time) (x fact.Presumed) {
	lost := p.earlier(now)
	if lost == nil {
		return x
	}
	at := lost.since
	if now.Sub(at) >= decide.Window {
		at = now
	}
	return fact.Presumed{PresumeSentBy: lost.appID, PresumedSentAt: &at}
}

// Adds a pause. It keeps a pause of the same scope and cause that ends later.
func (p *pauses) put(x tables.Pause) {
	p.mu.Lock()
	have, ok := p.all[pauseKey{x.Scope, x.Cause}]
	if !ok || reaches(x.Until, have.Until) {
		if ok && (have.Until == nil || have.Until.After(p.now())) {
			x.Since = have.Since
		}
		p.all[pauseKey{x.Scope, x.Cause}] = x
	}
	p.mu.Unlock()
	p.changed()
}

// Removes the pause x, unless the pause was extended after x was read.
func (p *pauses) drop(x tables.Pause) {
	p.mu.Lock()
	if have, ok := p.all[pauseKey{x.Scope, x.Cause}]; ok && sameEnd(have.Until, x.Until) {
		delete(p.all, pauseKey{x.Scope, x.Cause})
		delete(p.unrecorded, pauseKey{x.Scope, x.Cause})
		p.dropped = p.now()
	}
	p.mu.Unlock()
	p.changed()
}

// lastEnd returns the time at which a pause last ended in this run. It returns zero if none did.
func (p *pauses) lastEnd() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dropped
}

// Reports whether a pause until end lasts at least as long as a pause until other. nil means no
// end.
func reaches(end, other *time.Time) bool {
	return end == nil || other != nil && !end.Before(*other)
}

func sameEnd(a, b *time.Time) bool { return reaches(a, b) && reaches(b, a) }

func (p *pauses) restored() (tables.Pause, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x, ok := p.all[pauseKey{decide.ScopeAccount, ledger.CauseRestored}]
	return x, ok
}

// byHand returns an operator's pause of the account, if it is in force and recorded.
func (p *pauses) byHand() (tables.Pause, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := pauseKey{decide.ScopeAccount, decide.CausePerson}
	x, paused := p.all[key]
	_, unrecorded := p.unrecorded[key]
	return x, paused && !unrecorded
}

// err is the error of an attempt to record the pause x. A pause in force stays in unrecorded
// until it is recorded.
func (p *pauses) recorded(x decide.Pause, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := pauseKey{x.Scope, x.Cause}
	if _, inForce := p.all[key]; err != nil && inForce {
		p.unrecorded[key] = x
	} else {
		delete(p.unrecorded, key)
	}
}

func (p *pauses) listUnrecorded() []decide.Pause {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Values(p.unrecorded))
}

// Reports whether this pause, or a longer pause with the same scope and cause, is in force and
// recorded.
func (p *pauses) covers(x decide.Pause) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	have, ok := p.all[pauseKey{x.Scope, x.Cause}]
	_, unrecorded := p.unrecorded[pauseKey{x.Scope, x.Cause}]
	return ok && !unrecorded && reaches(have.Until, x.Until)
}

// blocked reports whether a lane must not start anything now. Polls are reads, so only a
// pause of the whole account blocks them.
func (p *pauses) blocked(l lane) bool {
	_, blocked := p.until(l)
	return blocked || (l != lanePoll && p.isClosed())
}

// closeGate blocks new requests that charge until openGate. Jobs whose intent is committed
// continue.
func (p *pauses) closeGate() { p.setClosed(true) }

func (p *pauses) openGate() { p.setClosed(false) }

func (p *pauses) setClosed(closed bool) {
	p.mu.Lock()
	p.closed = closed
	p.mu.Unlock()
	p.changed()
}

func (p *pauses) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// Reports whether pauses block a lane, and when the last of these pauses ends. end is zero if one
// of the pauses has no end.
func (p *pauses) until(l lane) (end time.Time, blocked bool) { return p.untilBut(l, "") }

// untilBut is like until, but ignores pauses with the given cause.
func (p *pauses) untilBut(l lane, cause string) (end time.Time, blocked bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	for key, x := range p.all {
		if key.scope != decide.ScopeAccount && key.scope != string(l) || key.cause == cause {
			continue
		}
		if x.Until == nil {
			return time.Time{}, true
		}
		if x.Until.After(now) {
			blocked = true
			if x.Until.After(end) {
				end = *x.Until
			}
		}
	}
	return end, blocked
}

func (p *pauses) list() []tables.Pause {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]tables.Pause, 0, len(p.all))
	for _, x := range p.all {
		out = append(out, x)
	}
	return out
}

// holds is the part of the runner that starts, ends and records the account's pauses: automatic
// pauses and the pauses of operators.
type holds struct {
	*Config
	pauses   *pauses
	presumed func(context.Context) error // called after unsent operations were presumed sent
	ended    func()                      // called when a pause has ended

	doubt sync.Mutex // held while the pause after a restore is changed
}

// A pause is started, recorded and logged, unless an equal or longer pause is in force and
// recorded. If the ledger cannot be written, the method returns the error. The pause is in force
// even so, and is recorded later.
func (h *holds) pause(ctx context.Context, x decide.Pause) error {
	if x.Until != nil { // in the ledger's precision
		until := x.Until.Truncate(time.Microsecond)
		x.Until = &until
	}
	if h.pauses.covers(x) {
		return nil
	}
	h.pauses.put(tables.Pause{Scope: x.Scope, Cause: x.Cause, Since: h.Clock(), Until: x.Until, Detail: x.Detail})
	err := h.recordPause(ctx, x)
	log := h.Log.WithField("scope", x.Scope).WithField("cause", x.Cause).WithField("trace_id", x.TraceID)
	if err != nil {
		log = log.WithError(err)
	}
	log.Warn("account paused: " + x.Detail + untilText(x.Until, h.Clock()))
	return err
}

// recordPause appends the fact of a pause, unless the ledger has an equal or longer one.
func (h *holds) recordPause(ctx context.Context, x decide.Pause) error {
	err := h.Ledger.Write(context.WithoutCancel(ctx), func(tx *ledger.Tx) error {
		have, paused, err := tx.Pause(x.Scope, x.Cause)
		if err != nil || paused && reaches(have.Until, x.Until) {
			return err
		}
		if paused && have.Until != nil && !have.Until.After(tx.Now()) { // the recorded pause has expired but has not been ended, so this pause is new
			err = tx.Append(fact.AccountResumed{Scope: x.Scope, Cause: x.Cause, Detail: timePassed})
			if err != nil {
				return err
			}
		}
		return tx.Append(fact.AccountPaused{Scope: x.Scope, Cause: x.Cause, Detail: x.Detail, TraceID: x.TraceID, Until: x.Until, User: x.User})
	})
	h.pauses.recorded(x, err)
	return err
}

// untilText returns log text about the end of a pause. It returns "" if the pause has no end or
// ends within askAgain.
func untilText(until *time.Time, now time.Time) string {
	if until == nil || until.Sub(now) < askAgain {
		return ""
	}
	return "; that is until " + until.Format(time.RFC3339) + ", unless the provider answers a read before, or `perennial accounts resume` ends it"
}

// Ends the pause x. It does nothing if the pause was extended. If the ledger cannot be written,
// the pause stays in force.
func (h *holds) resume(ctx context.Context, x tables.Pause, detail string) {
	// The error can be ignored: resumeAs logs it, and the pause is probed again.
	_ = h.resumeAs(ctx, x, fact.AccountResumed{Scope: x.Scope, Cause: x.Cause, Detail: detail})
}

func (h *holds) resumeAs(ctx context.Context, x tables.Pause, f fact.AccountResumed) error {
	if f.Cause == ledger.CauseRestored {
		h.doubt.Lock()
		defer h.doubt.Unlock()
	}
	log := h.Log.WithField("scope", f.Scope).WithField("cause", f.Cause)
	err := h.Ledger.Write(context.WithoutCancel(ctx), func(tx *ledger.Tx) error {
		have, paused, err := tx.Pause(f.Scope, f.Cause)
		if err != nil || !paused || !sameEnd(have.Until, x.Until) {
			return err // never recorded, or changed after x was read
		}
		if f.Cause == ledger.CauseRestored {
			if err := tx.StaleAll(); err != nil {
				return err
			}
		}
		return tx.Append(f)
	})
	if err == nil && f.PresumeSentBy != "" {
		err = h.presumed(ctx)
	}
	if err != nil {
		log.WithError(err).Warn("the end of the pause could not be recorded: the account stays paused")
		return fmt.Errorf("the end of the pause for %s could not be recorded, so it stays: %w", f.Cause, err)
	}
	h.pauses.drop(x)
	log.Info("account resumed: " + f.Detail)
	h.ended()
	return nil
}

const timePassed = "the time has passed"

// shortPause is the longest Retry-After that Paused leaves out.
const shortPause = 30 * time.Second

// Paused returns the pauses that are in force. It leaves out the pause after a restore
// (RestorePause) and a Retry-After of at most shortPause.
func (h *holds) Paused() []tables.Pause {
	now := h.Clock()
	all := slices.DeleteFunc(h.pauses.list(), func(x tables.Pause) bool {
		return x.Cause == ledger.CauseRestored || x.Until != nil && (x.Until.Sub(x.Since) <= shortPause || !x.Until.After(now))
	})
	slices.SortFunc(all, func(a, b tables.Pause) int { return strings.Compare(a.Scope+a.Cause, b.Scope+b.Cause) })
	return all
}

// RestorePause describes the pause after a restore, or returns "" if there is none.
func (h *holds) RestorePause() string {
	if x, ok := h.pauses.restored(); ok {
		return "paused after a restore: " + x.Detail
	}
	return ""
}

const (
	probeFirst = time.Second
	probeMost  = 5 * time.Minute
	// askAgain is how long a Retry-After is obeyed without a probe. A longer Retry-After may be
	// a mistake, such as a Unix time (trap 48).
	askAgain = time.Hour
)

// prober ends pauses: timed pauses when their time has passed, others when a request
// succeeds.
type prober struct {
	*Config
	gate   *rateGate
	clock  *clock
	pauses *pauses
	ready  *ready
	holds  *holds
	link   *link
}

// probe tests whether pauses can end, and ends each pause that can. It returns when ctx ends. The
// interval between tests grows.
func (p *prober) probe(ctx context.Context) error {
	probes, next := sleep.Doubling(2*probeFirst, probeMost), p.Clock()
	for {
		timer := time.NewTimer(probeFirst) // timed pauses are checked each second, independent of the probe interval
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
		for _, x := range p.pauses.listUnrecorded() {
			_ = p.holds.recordPause(ctx, x) // a failure is tried again
		}
		list := p.pauses.list()
		if len(list) == 0 {
			probes.Reset()
			next = p.Clock()
			continue
		}
		due, asked := !p.Clock().Before(next), false
		for _, x := range list {
			if due || x.Until != nil {
				asked = p.probeOne(ctx, x) || asked
			}
		}
		if asked {
			next = p.Clock().Add(probes.Next())
		}
	}
}

// probeOne ends a pause if possible, and reports whether it tested a pause without an end.
func (p *prober) probeOne(ctx context.Context, x tables.Pause) bool {
	switch {
	case x.Until != nil && !x.Until.After(p.Clock()):
		p.holds.resume(ctx, x, timePassed)
		return false
	case x.Until != nil:
		p.askThrough(ctx, x)
		return false
	case x.Cause == decide.CausePerson, x.Cause == ledger.CauseRestored, x.Cause == string(upstream.CodeIdempotencyKeyRequired):
		return false // a request that succeeds does not end these causes
	case x.Scope != decide.ScopeAccount:
		p.ready.probe(lane(x.Scope))
		return true
	}
	if p.pauses.throttled() || p.gate.Pass(ctx, priorityPoll) != nil {
		return false
	}
	wallet, err := p.Provider.Wallet(ctx)
	p.link.Read(ctx, wallet.ServerTime, err)
	if err == nil && (x.Cause != decide.CauseClock || p.clock.Wrong() == "") {
		p.holds.resume(ctx, x, "a signed request works again")
	}
	return true
}

// askThrough reads the wallet during a long Retry-After, once every askAgain, and ends the
// pause if the read succeeds.
func (p *prober) askThrough(ctx context.Context, x tables.Pause) {
	if !p.link.mayAsk(x) || p.gate.Pass(ctx, priorityPoll) != nil {
		return
	}
	wallet, err := p.Provider.Wallet(ctx)
	p.link.Read(ctx, wallet.ServerTime, err)
	if err == nil {
		p.holds.resume(ctx, x, answeredEarly)
	}
}

// mayAsk reports whether the pause may be probed: it is a Retry-After, and askAgain has
// passed since it began or was last probed. If so, mayAsk records this probe.
func (l *link) mayAsk(x tables.Pause) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := x.Since
	if l.asked.After(last) {
		last = l.asked
	}
	if now := l.Clock(); x.Cause == decide.CauseThrottled && now.Sub(last) >= askAgain {
		l.asked = now
		return true
	}
	return false
}

// PauseByHand pauses the account until ResumeByHand. It returns a RefusedError if the name or the
// reason is missing. It returns the ledger's error if the pause could not be recorded. The pause
// is in force even so, and is recorded as soon as possible.
func (h *holds) PauseByHand(ctx context.Context, by, reason string) error {
	if err := desk.CheckSigned(by, reason); err != nil {
		return err
	}
	err := h.pause(ctx, decide.Pause{Scope: decide.ScopeAccount, Cause: decide.CausePerson, Detail: "by " + fact.Signed(by, fact.UserOf(ctx)) + ": " + reason, User: fact.UserOf(ctx)})
	if err != nil {
		return fmt.Errorf("the account is paused, and that is not recorded yet: do not stop the runner before the ledger can be written: %w", err)
	}
	return nil
}

// PausedByHand returns the operator's pause, if one is in force and recorded. A second
// PauseByHand does not replace the reason of that pause.
func (h *holds) PausedByHand() (tables.Pause, bool) { return h.pauses.byHand() }

// ResumeByHand ends all pauses, whatever their cause or end, and returns how many it ended.
// If the cause persists, the next failure pauses the account again. If the end of a pause
// cannot be recorded, that pause stays in force and err includes the failure.
//
// If reviewLost is set, operations of the next 24 hours that may repeat one that was paid in the
// time that a restored ledger has lost are not sent and need review. ResumeByHand then returns a
// RefusedError if the ledger was not restored, or was not yet compared with the provider's lists.
func (h *holds) ResumeByHand(ctx context.Context, by, reason string, reviewLost bool) (ended int, err error) {
	if err := desk.CheckSigned(by, reason); err != nil {
		return 0, err
	}
	if reviewLost {
		if err := h.mayReviewLost(ctx); err != nil {
			return 0, err
		}
	}
	for _, x := range h.pauses.list() {
		f := fact.AccountResumed{Scope: x.Scope, Cause: x.Cause, Detail: "by " + fact.Signed(by, fact.UserOf(ctx)) + ": " + reason, User: fact.UserOf(ctx)}
		if x.Cause == ledger.CauseRestored {
			h.pauses.awaitCompared(ctx)
			since, failed := h.Ledger.Operations.Forgotten(ctx)
			if failed != nil {
				err = errors.Join(err, failed)
				continue
			}
			old := h.pauses.earlier(h.Clock())
			f.ReviewLost = reviewLost || old != nil && old.review
			f.SchedulesFrom = schedulesFrom(x, h.Clock())
			h.pauses.noteRenewed(&f)
			f.PresumeSentBy, f.LostSince = h.Provider.AppID(), since // an unsent operation may have been sent before the restore
			if since != nil && old != nil && old.since.Before(*since) {
				f.LostSince = &old.since
			}
			if since != nil {
				h.pauses.doubt(f, h.Clock()) // before the fact, because commands may be accepted right after it
			}
		}
		if failed := h.resumeAs(ctx, x, f); failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		ended++
	}
	return ended, err
}

func (h *holds) mayReviewLost(ctx context.Context) error {
	if _, restored := h.pauses.restored(); !restored {
		return command.Refuse("the account is not paused after a restore: nothing is lost")
	}
	h.pauses.awaitCompared(ctx)
	if h.pauses.renewed.Load() == nil {
		return command.Refuse("the provider's lists were not read since the restore, so what was paid in the lost time is not known: try again in a minute")
	}
	return nil
}
