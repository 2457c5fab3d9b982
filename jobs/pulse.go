// Whether the provider answers: the time of its last answer, and the wallet reads that
// keep asking while nothing else is sent.

package jobs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"perennial/jobs/decide"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/sleep"
	"perennial/upstream"
)

// pulse is when the provider last answered, and why it does not.
type pulse struct {
	mu       sync.Mutex
	answered time.Time // the last answer of the API's, whatever it said
	failed   int       // requests without one since then
	last     error

	unsettled map[string]unsettled // by what is tried
}

// unsettled are the attempts of one kind since the last one with a definite outcome.
type unsettled struct {
	since, last time.Time
	attempts    int
	of, why     string // of the last one
}

// ended notes the end of an attempt that told what became of it.
func (p *pulse) ended(kind string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.unsettled, kind)
}

// left notes the end of an attempt that did not, for a reason. Those that follow one another
// and are of the same one thing, where it is named, count once.
func (p *pulse) left(kind, of, why string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x, follows := p.unsettled[kind]
	if !follows {
		x.since = now
	}
	if of == "" || of != x.of {
		x.attempts++
	}
	x.last, x.of, x.why = now, of, why
	if p.unsettled == nil {
		p.unsettled = map[string]unsettled{}
	}
	p.unsettled[kind] = x
}

// note notes one request's end: nil for an answer.
func (p *pulse) note(now time.Time, failure error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if failure == nil {
		p.answered, p.failed, p.last = now, 0, nil
		return
	}
	p.failed, p.last = p.failed+1, failure
}

// silence is an error of a read that is no answer of the API's; nil for one that is.
func silence(err error) error {
	if failed, ok := errors.AsType[*upstream.Error](err); ok && failed.Code != "" || errors.Is(err, context.Canceled) {
		err = nil
	}
	return err
}

// Bounds of what counts as silence. One failed request is not reported; a failed
// request and no answer for a while is.
const (
	silentAfter = 15 * time.Second
	silentMost  = 40 * time.Second // without any answer, while it is asked
	askPatience = 20 * time.Second // for the answer to one read
)

// Bounds of what counts as attempts without a definite outcome: what is tried no more, as a
// person has ended it, does not stay.
const (
	unsettledAfter    = time.Minute
	unsettledAttempts = 3
	unsettledMost     = 15 * time.Minute // since the last attempt; waits are of 5 minutes
)

// Kinds of unsettled that are no POST: reads of proxies before paying, and of orders.
const (
	readBefore = "read"
	readOrder  = "poll"
)

// Unsettled says which kind of POST has no definite outcome, or that no proxy can be read
// before paying, or no order at all, though the provider may answer other requests; "" where neither is so.
func (r *Runner) Unsettled() string {
	r.pulse.mu.Lock()
	defer r.pulse.mu.Unlock()
	now := r.Clock()
	var lines []string
	for _, kind := range slices.Sorted(maps.Keys(r.pulse.unsettled)) {
		x := r.pulse.unsettled[kind]
		if x.attempts < unsettledAttempts || now.Sub(x.since) < unsettledAfter || now.Sub(x.last) > unsettledMost {
			continue
		}
		what, state := "no "+kind+" has had a definite outcome", fact.StateWaiting
		switch kind {
		case readBefore:
			what = "no proxy could be read before its renewal"
		case readOrder:
			what, state = "no order could be read", fact.StateOpen
		}
		lines = append(lines, fmt.Sprintf("%s since %s, in %d attempts (`perennial operations list --state %s`): %s", what, x.since.UTC().Format(time.RFC3339), x.attempts, state, fact.Bounded(x.why)))
	}
	return strings.Join(lines, "\n")
}

// Silent says why the provider does not answer, "" while it does.
func (r *Runner) Silent() string {
	r.pulse.mu.Lock()
	defer r.pulse.mu.Unlock()
	since := r.Clock().Sub(r.pulse.answered)
	asked := r.AskEvery > 0 && !r.pauses.throttled() && len(r.Paused()) == 0
	switch {
	case r.pulse.answered.IsZero():
		return ""
	case r.pulse.failed > 1 || r.pulse.failed == 1 && since > silentAfter:
		return fmt.Sprintf("the provider has not answered since %s: %s", r.pulse.answered.UTC().Format(time.RFC3339), fact.Bounded(r.pulse.last.Error()))
	case asked && since > silentMost+r.askInterval():
		return "the provider has not answered since " + r.pulse.answered.UTC().Format(time.RFC3339)
	}
	return ""
}

// shortPause is the longest Retry-After that is not reported as a pause.
const shortPause = 30 * time.Second

// Paused lists what is paused and for how long nothing of it is sent, but for the
// pause of a restore (RestorePause) and a short Retry-After.
func (r *Runner) Paused() []ledger.Pause {
	now := r.Clock()
	all := slices.DeleteFunc(r.pauses.list(), func(x ledger.Pause) bool {
		return x.Cause == ledger.CauseRestored || x.Until != nil && (x.Until.Sub(x.Since) <= shortPause || !x.Until.After(now))
	})
	slices.SortFunc(all, func(a, b ledger.Pause) int { return strings.Compare(a.Scope+a.Cause, b.Scope+b.Cause) })
	return all
}

// askInterval is how often the provider is asked while nothing else is: at most a
// tenth of the rate goes into it.
func (r *Runner) askInterval() time.Duration {
	return max(r.AskEvery, time.Duration(10/r.RatePerSecond*float64(time.Second)))
}

// keepAsking reads the wallet when nothing was heard of the provider for a while:
// that it went away, or refuses the key, is noticed before there is something to
// send. A paused account is asked by its probe.
func (r *Runner) keepAsking(ctx context.Context) error {
	if r.AskEvery <= 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	every := r.askInterval()
	for {
		if err := sleep.For(ctx, every/2); err != nil {
			return err
		}
		r.pulse.mu.Lock()
		quiet := r.pulse.failed > 0 || r.Clock().Sub(r.pulse.answered) >= every/2
		r.pulse.mu.Unlock()
		if !quiet || r.pauses.throttled() || r.accountPaused() {
			continue
		}
		if err := r.PassListing(ctx); err != nil {
			return err
		}
		limited, cancel := context.WithTimeout(ctx, askPatience)
		wallet, err := r.Provider.Wallet(limited)
		cancel()
		if ctx.Err() == nil {
			r.Read(ctx, wallet.ServerTime, err)
		}
	}
}

func (r *Runner) accountPaused() bool {
	return slices.ContainsFunc(r.pauses.list(), func(x ledger.Pause) bool { return x.Scope == decide.ScopeAccount })
}
