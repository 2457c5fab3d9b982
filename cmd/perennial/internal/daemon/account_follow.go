// Leader and standby of an account on an external NATS. A runner follows the account's events
// until it leads. A runner that is older than the account's events stays a standby.
//
// Each machine has its own key, clock and network path, so runners may differ in whether they
// can use the provider. A standby tests its access regularly. A leader without access yields to
// a runner that has access.

package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"perennial/cmd/perennial/internal/cluster"
	"perennial/cmd/perennial/internal/journal"
	"perennial/jobs"
	"perennial/jobs/decide"
	"perennial/ledger"
	"perennial/ledger/sleep"
	"perennial/queue/lease"
	"perennial/queue/outbox"
	"perennial/upstream"
)

func (a *account) journal() journal.Journal { return a.journalOf(a.Ledger()) }

func (a *account) journalOf(l *ledger.Ledger) journal.Journal {
	return journal.Journal{Account: a.Name, Queue: a.host.Queue, Ledger: l}
}

const leaseCheckEvery = time.Second

// awaitLease follows the account's events until this runner gets the lease. The runner does not
// ask for the lease in two cases. A later version may have written an event that this runner
// cannot apply. Or this runner cannot use the provider while another runner can. If the ledger
// must be rebuilt first, awaitLease returns journal.ErrLedgerBefore or errLedgerUnusable.
func (a *lifecycle) awaitLease(ctx context.Context) (*lease.Lease, error) {
	ctx, end := context.WithCancelCause(ctx)
	var follower sync.WaitGroup
	follower.Go(func() {
		if err := a.follow(ctx); errors.Is(err, journal.ErrLedgerBefore) {
			end(err)
		}
	})
	follower.Go(func() { a.file.watchLedger(ctx, end) })
	defer func() { end(nil); follower.Wait() }()
	for ctx.Err() == nil {
		why, changed := a.outdated.state()
		if why == "" && !(accessTest{a.account}).defers() {
			lease, err := a.ask(ctx, changed)
			if now, _ := a.outdated.state(); err == nil || ctx.Err() == nil && now == "" && !(accessTest{a.account}).defers() {
				return lease, err
			}
			continue
		}
		a.report(waitsForLease)
		_, _ = sleep.OrWoken(ctx, leaseCheckEvery, changed)
	}
	return nil, context.Cause(ctx)
}

// ask waits for the account's lease. It gives up when changed is closed, or when another
// runner can use the provider and this runner cannot.
func (a *lifecycle) ask(ctx context.Context, changed <-chan struct{}) (*lease.Lease, error) {
	ctx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	go func() {
		for ctx.Err() == nil && !(accessTest{a.account}).defers() {
			if woken, _ := sleep.OrWoken(ctx, leaseCheckEvery, changed); woken {
				break
			}
		}
		giveUp()
	}()
	return a.host.leases.Acquire(ctx, a.Name, a.host.holder, cluster.LeaseTTL, lease.Turn{
		Yields: func() bool { return a.host.peers.Leaves(a.host.ownPlacement(), a.Name, time.Now()) },
		Waits:  func() { a.report(waitsForLease) },
	})
}

// followFirst and followMost limit the wait after a failed attempt to follow the events.
// After a commit, the wait starts at followFirst again.
const (
	followFirst = 250 * time.Millisecond
	followMost  = 15 * time.Second
)

// follow applies the account's events until ctx ends. It retries after errors, and /readyz
// shows the last error. It returns journal.ErrLedgerBefore if rows that the ledger needs are
// no longer on the stream.
func (a *lifecycle) follow(ctx context.Context) error {
	delay := sleep.Growing(followFirst, followMost)
	for ctx.Err() == nil {
		good := time.AfterFunc(followMost, func() { a.setUnfollowed(nil) })
		err := a.journal().Follow(ctx, func() { a.outdated.note(nil); a.setUnfollowed(nil); delay.Reset() })
		good.Stop()
		if ctx.Err() != nil {
			break
		}
		a.outdated.note(err)
		if errors.Is(err, journal.ErrLedgerBefore) {
			a.setUnfollowed(nil)
			return err
		}
		a.setUnfollowed(err)
		a.log.WithError(err).Warn("the account's events cannot be followed now; it is tried again")
		_ = delay.Wait(ctx)
	}
	a.setUnfollowed(nil)
	return ctx.Err()
}

func (a *account) setUnfollowed(err error) {
	why := ""
	if err != nil {
		why = "another runner holds the account, and this one cannot follow its events: " + err.Error()
	}
	a.update(func(x *current) { x.unfollowed = why })
}

// lead makes this runner the leader until the returned function is called. A leader
// publishes rows before it commits them. The returned context ends with cause jobs.ErrLost
// when the lease or the right to append is lost. lease is nil on the embedded server, which
// needs no lease.
func (a *lifecycle) lead(ctx context.Context, lease *lease.Lease, outbox *outbox.Outbox) (context.Context, func(), error) {
	if lease == nil {
		return ctx, func() {}, nil
	}
	leadership, err := a.journal().Lead(ctx, outbox)
	if err != nil {
		return nil, nil, err
	}
	a.setLeading(&leading{leadership, outbox})
	leadingCtx, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-leadership.Over():
			cancel(errors.Join(jobs.ErrLost, leadership.Err()))
		case <-lease.Lost(): // the lease may also be lost while a stop waits for work in progress
			cancel(errLeaseLost)
			leadership.End()
		}
	})
	return leadingCtx, func() {
		a.setLeading(nil)
		leadership.End()
		cancel(nil)
		watch.Wait()
	}, nil
}

type leading struct {
	*ledger.Leadership
	outbox *outbox.Outbox
}

// setLeading records whether this runner leads. If l is nil, the runner does not lead.
func (a *account) setLeading(l *leading) {
	a.update(func(x *current) { x.leading, x.outbox = l, nil })
	a.host.announce()
}

// unacknowledged returns a message if the events stream has acknowledged no facts for slowAfter
// although facts wait. Otherwise it returns "".
func (a *account) unacknowledged() string {
	leading := a.snapshot().leading
	if leading == nil {
		return ""
	}
	since := leading.Waiting()
	if since.IsZero() || time.Since(since) < slowAfter {
		return ""
	}
	text := fmt.Sprintf("the events stream has acknowledged nothing since %s, so nothing is sent", since.UTC().Format(time.RFC3339))
	if err := leading.outbox.Failing(); err != nil {
		text += ": " + err.Error()
	}
	return text
}

// slowAfter is how long facts may wait for an acknowledgement from the events stream. After this
// time, /readyz reports the wait.
const slowAfter = 4 * time.Second

// resentAnswers is how far back a new leader sends the results of commands to their inboxes
// again, in rows. The previous leader may have published rows without sending their results.
const resentAnswers = 2048

// answersAfter returns the last row for which the outbox need not send a result to an inbox.
func (a *lifecycle) answersAfter(ctx context.Context) (uint64, error) {
	noted, err := a.Ledger().Published(ctx)
	if err != nil {
		return 0, err
	}
	head, _, err := a.Ledger().Head(ctx)
	return uint64(max(noted.Seq, head-resentAnswers, 0)), err
}

const (
	// standbyEvery is the interval at which a standby is compared with the events stream.
	standbyEvery = 5 * time.Second
	// standbySlow limits two times: how long a lagging standby makes no progress, and how long
	// no runner has the account's lease. After this time, /readyz reports the problem.
	standbySlow = 20 * time.Second
)

type standbyState struct {
	lag     uint64    // rows of the stream that the ledger does not have yet
	head    uint64    // the ledger's last row at the last comparison
	moved   time.Time // when head last changed or lag was 0
	held    time.Time // when a runner was last known to have the lease
	problem string
}

// close reports whether the standby is close to the end of the stream. Its lag must be known and
// less than this number of rows.
func (s *standbyState) close(most uint64) bool {
	return !s.moved.IsZero() && s.lag < most
}

type standbyWatch struct{ *account }

func (a standbyWatch) watchStandby(ctx context.Context) {
	for {
		a.noteStandby(ctx)
		if sleep.For(ctx, standbyEvery) != nil {
			return
		}
	}
}

func (a standbyWatch) noteStandby(ctx context.Context) {
	if a.role() != cluster.RoleStandby {
		a.update(func(x *current) { x.standby.note(standbyLook{at: time.Now(), held: true}) })
		return
	}
	limited, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	look, err := a.lookAtStandby(limited)
	if err == nil { // other checks report a failure of NATS
		a.update(func(x *current) { x.standby.note(look) })
	}
}

type standbyLook struct {
	at         time.Time
	head, last uint64 // last rows of the ledger and of the stream
	held       bool   // a runner has the account's lease
}

func (a standbyWatch) lookAtStandby(ctx context.Context) (look standbyLook, err error) {
	head, _, err := a.Ledger().Head(ctx)
	if err != nil {
		return look, err
	}
	state, err := a.events().State(ctx)
	if err != nil {
		return look, err
	}
	holder := a.host.leases.Heard(a.Name)
	if holder == "" {
		holder, err = lease.Holder(ctx, a.js(), a.Name)
	}
	return standbyLook{at: time.Now(), head: uint64(head), last: state.Last, held: holder != ""}, err
}

func (s *standbyState) note(look standbyLook) {
	s.lag = look.last - min(look.last, look.head)
	if look.head != s.head || s.lag == 0 || s.moved.IsZero() {
		s.head, s.moved = look.head, look.at
	}
	if look.held || s.held.IsZero() {
		s.held = look.at
	}
	s.problem = ""
	switch {
	case look.at.Sub(s.moved) > standbySlow:
		s.problem = fmt.Sprintf("another runner holds the account, and this one has not advanced past row %d of %d since %s", s.head, look.last, s.moved.UTC().Format(time.RFC3339))
	case look.at.Sub(s.held) > standbySlow:
		s.problem = "no runner has held the account's lease since " + s.held.UTC().Format(time.RFC3339) + ", and this one could not take it"
	}
}

// outdated records whether a later version wrote a row that this runner cannot apply. The
// zero value means that it did not.
type outdated struct {
	mu      sync.Mutex
	why     string        // "" while all rows could be applied
	changed chan struct{} // closed when why changes; nil if no goroutine waits for a change
}

// note records the result of applying rows. If err is nil, the runner is not outdated. It
// ignores errors other than LaterError.
func (o *outdated) note(err error) {
	later, ok := errors.AsType[*journal.LaterError](err)
	if err != nil && !ok {
		return
	}
	why := ""
	if ok {
		why = later.Error()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.why == why {
		return
	}
	o.why = why
	if o.changed != nil {
		close(o.changed)
		o.changed = nil
	}
}

// state returns why the runner is outdated. It returns "" if the runner is not outdated. The
// channel closes when the reason changes.
func (o *outdated) state() (why string, changed <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.changed == nil {
		o.changed = make(chan struct{})
	}
	return o.why, o.changed
}

const (
	// accessEvery is the shortest interval at which a standby reads the provider's account.
	accessEvery = 10 * time.Second
	// accessShare is the share of the account's rate that all standbys together may use.
	accessShare = 0.05
	// accessTimeout limits one read.
	accessTimeout = 5 * time.Second
)

// accessInterval returns the interval at which each standby of an account reads the provider's
// account. rate is the account's limit in requests per second. 0 means no limit.
func accessInterval(followers int, rate float64) time.Duration {
	if rate <= 0 {
		return accessEvery
	}
	return max(accessEvery, time.Duration(float64(followers)/(rate*accessShare)*float64(time.Second)))
}

// leaveAfter returns how long a leader may be without access to the provider before it yields.
// Within this time, every standby tests its own access again.
func leaveAfter(every time.Duration) time.Duration { return 2 * every }

// access records whether this runner can use the provider. The zero value means unknown.
type access struct {
	usable  bool
	why     string    // why not; "" if unknown or usable
	refused bool      // the provider replied, and its reply was a refusal
	since   time.Time // when the provider became unusable
}

// note records the result of a test. If this runner can use the provider, why is "". Otherwise
// why is the reason, and refused means that the provider replied with a refusal.
func (p *access) note(why string, refused bool, now time.Time) {
	if p.why == "" {
		p.since = now
	}
	p.usable, p.why, p.refused = why == "", why, refused
}

// refusal returns a message for /readyz if the provider refuses this runner. Otherwise it
// returns "".
func (p *access) refusal() string {
	if !p.refused {
		return ""
	}
	return "another runner holds the account, and this one could not run it: " + p.why
}

type accessResult struct {
	why     string        // why this runner could not lead the account; "" if it could
	refused bool          // the API replied with a refusal
	wait    time.Duration // time to wait before the next request to the provider
}

type accessTest struct{ *account }

// read reads the provider's account and compares it with the account in the ledger's binding.
func (a accessTest) read(ctx context.Context) accessResult {
	ctx, cancel := context.WithTimeout(ctx, accessTimeout)
	defer cancel()
	account, err := a.Client.Account(ctx)
	failed, answered := errors.AsType[*upstream.Error](err)
	switch {
	case errors.Is(err, upstream.CodeRateLimited) && failed.Code == "": // a reply without the API's envelope comes from a gateway in front of the API
		return accessResult{why: bindFailure(err), wait: decide.ThrottleDelay(failed.RetryAfter, 0)}
	case errors.Is(err, upstream.CodeRateLimited): // the API rate limits only known keys, so this key works
		return accessResult{wait: decide.ThrottleDelay(failed.RetryAfter, 0)}
	case answered:
		return accessResult{why: bindFailure(err), refused: failed.Code != "" && failed.HTTPStatus/100 == 4}
	case err != nil:
		return accessResult{why: bindFailure(err)}
	}
	b, err := a.Ledger().Binding(ctx)
	if err != nil { // the ledger has no binding yet, or another check reports that the ledger is unreadable
		return accessResult{}
	}
	if b.AccountID != account.AccountID || b.Environment != string(a.Client.Environment()) || b.BaseURL != a.Client.BaseURL() {
		return accessResult{refused: true, why: fmt.Sprintf("the account belongs to %s of %s at %s, and this runner's key is of %s of %s at %s: give it the base_url, app_id and secret of the other runners",
			b.AccountID, b.Environment, b.BaseURL, account.AccountID, a.Client.Environment(), a.Client.BaseURL())}
	}
	return accessResult{}
}

// throttledFor returns the remaining time of the Retry-After that the ledger records for the
// account. The result is 0 or less if no Retry-After is in force or the ledger cannot be read.
func (a accessTest) throttledFor(ctx context.Context, now time.Time) time.Duration {
	pauses, err := a.Ledger().Operations.Pauses(ctx)
	if err != nil {
		return 0 // another check reports an unreadable ledger
	}
	for _, x := range pauses {
		if x.Scope == decide.ScopeAccount && x.Cause == decide.CauseThrottled && x.Until != nil {
			return x.Until.Sub(now)
		}
	}
	return 0
}

func (a accessTest) interval(now time.Time) time.Duration {
	return accessInterval(a.host.peers.Followers(a.Name, a.host.name.Get(), now), a.config.RatePerSecond)
}

// keepAccess updates the account's access until ctx ends. While a Retry-After is in force, a
// standby sends nothing and keeps the last result. The Retry-After may be from its own requests
// or from the ledger.
func (a accessTest) keepAccess(ctx context.Context) {
	var next time.Time
	for {
		now := time.Now()
		switch {
		case a.holds():
			why := a.unserved()
			a.update(func(x *current) { x.access.note(why, false, now) })
			next = time.Time{}
		case now.Before(next):
		case a.throttledFor(ctx, now) > 0: // not added to next, because an operator may end the Retry-After
		default:
			found := a.read(ctx)
			if ctx.Err() == nil && !a.holds() {
				a.update(func(x *current) { x.access.note(found.why, found.refused, now) })
			}
			next = now.Add(max(a.interval(now), found.wait))
		}
		if sleep.For(ctx, time.Second) != nil {
			return
		}
	}
}

// unserved returns why the leader cannot use the provider. It returns "" if the leader can use
// the provider.
func (a accessTest) unserved() string {
	x := a.snapshot()
	if x.unbound != "" || x.runner == nil {
		return x.unbound
	}
	if why := x.runner.Silent(); why != "" {
		return why
	}
	for _, p := range x.runner.Paused() {
		if p.Scope == decide.ScopeAccount && decide.OfThisMachine(p.Cause) {
			return p.Detail
		}
	}
	return ""
}

// leaves reports whether a standby with access to the provider should take over. This is the
// case if this leader has had no access for leaveAfter.
func (a accessTest) leaves(now time.Time) bool {
	x := a.snapshot().access
	return x.why != "" && now.Sub(x.since) >= leaveAfter(a.interval(now))
}

// defers reports whether this runner should not ask for the lease. This is the case if it cannot
// use the provider and another standby can.
func (a accessTest) defers() bool {
	return a.snapshot().access.why != "" && a.host.peers.Ready(a.Name, a.host.name.Get(), time.Now())
}
