// How a runner hands accounts over to the runners that should lead them: it drains one
// account at a time, as at its own end.

package daemon

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"perennial/cmd/perennial/internal/placement"
	"perennial/ledger/sleep"
)

const (
	// handOverEvery is how often the placement is checked.
	handOverEvery = time.Second
	// settles is how long a runner must be known, and an account held, before the
	// account is handed over.
	settles = 3 * time.Second
	// handOverMost bounds a handover: the drain, the last events, and the receiver's
	// answer. After it the handover has failed.
	handOverMost = time.Minute
	// againFirst and againMost bound the wait after a failed handover to a runner, and
	// the wait before the same runner hands the same account over again to balance
	// shares. It doubles each time.
	againFirst = 5 * time.Second
	againMost  = time.Minute
	// forgets is how long after such a wait the next one starts at againFirst.
	forgets = 10 * againMost
)

// holding is the time in which a runner holds an account's lease. The zero value holds
// none.
type holding struct {
	since  time.Time
	giveUp func() // drains, and returns the lease
}

// errHandedOver ends the work on an account like a stop of the runner.
var errHandedOver = fmt.Errorf("the account is handed over: %w", context.Canceled)

func (a *account) setHolding(x holding) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.holding = x
	a.host.announce()
}

func (a *account) holds() bool { return !a.snapshot().holding.since.IsZero() }

// handing is a handover in progress.
type handing struct {
	account, to string
	began       time.Time
}

// pause is a time without further attempts.
type pause struct {
	until time.Time
	delay time.Duration
}

// longer returns the next, longer pause.
func (p pause) longer(now time.Time) pause {
	if now.Sub(p.until) > forgets {
		p.delay = 0
	}
	delay := min(max(2*p.delay, againFirst), againMost)
	return pause{until: now.Add(delay), delay: delay}
}

// mover decides when an account is handed over. Its zero value is ready to use.
type mover struct {
	now    *handing
	wished map[string]string // at the previous check: node by account
	failed map[string]pause  // by node: it did not take its account
	moved  map[string]pause  // by account: it was handed over
}

// wish is an account that another runner should lead.
type wish struct {
	account, to string
	pinned      bool
	held        time.Time // since when this runner holds it
	came        time.Time // when the other runner was first heard of
	ready       bool      // the other runner could lead the account at once
}

// choose returns the handover to begin now, nil for none. It was wished at the previous
// check too, and its receiver is known for a while and took its last account.
func (m *mover) choose(wishes []wish, now time.Time) *handing {
	before := m.wished
	m.wished = map[string]string{}
	for _, w := range wishes {
		m.wished[w.account] = w.to
	}
	if m.now != nil {
		return nil
	}
	slices.SortFunc(wishes, func(a, b wish) int {
		if a.pinned != b.pinned {
			return map[bool]int{true: -1, false: 1}[a.pinned]
		}
		return cmp.Compare(a.account, b.account)
	})
	for _, w := range wishes {
		if before[w.account] == w.to && m.may(w, now) {
			m.now = &handing{account: w.account, to: w.to, began: now}
			return m.now
		}
	}
	return nil
}

func (m *mover) may(w wish, now time.Time) bool {
	if !w.ready || now.Sub(w.came) < settles || now.Before(m.failed[w.to].until) {
		return false
	}
	return w.pinned || now.Sub(w.held) >= settles && !now.Before(m.moved[w.account].until)
}

// end notes the result of the handover in progress: a runner took the account, or none
// did.
func (m *mover) end(took bool, now time.Time) {
	if m.failed == nil {
		m.failed, m.moved = map[string]pause{}, map[string]pause{}
	}
	x := *m.now
	m.now = nil
	m.moved[x.account] = m.moved[x.account].longer(now)
	if took {
		delete(m.failed, x.to)
	} else {
		m.failed[x.to] = m.failed[x.to].longer(now)
	}
}

// handOvers hands accounts over, one at a time, until ctx ends.
func (h *Host) handOvers(ctx context.Context) {
	var m mover
	for sleep.For(ctx, handOverEvery) == nil {
		if h.stopping.Load() {
			continue
		}
		h.lookAtHandOver(&m, time.Now())
		x := m.choose(h.wishes(time.Now()), time.Now())
		if x == nil {
			continue
		}
		a := h.account(x.account)
		a.log.WithField("to", x.to).Info("the account is handed over: operations in progress are finished, no others begin")
		if give := a.snapshot().holding.giveUp; give != nil {
			give()
		}
	}
}

// lookAtHandOver ends a handover in progress when another runner holds the account, this
// one has taken it back, or it takes too long.
func (h *Host) lookAtHandOver(m *mover, now time.Time) {
	if m.now == nil {
		return
	}
	x, a := *m.now, h.account(m.now.account)
	log := a.log.WithField("to", x.to)
	switch holder := h.peers.holder(x.account, h.name.get(), now); {
	case a.snapshot().holding.since.After(x.began):
		log.Warn("the account was handed over and not taken: this runner continues with it")
		m.end(false, now)
	case holder != "":
		log.WithField("holder", holder).Info("the account was handed over")
		m.end(true, now)
	case now.Sub(x.began) > handOverMost:
		log.Warn("the hand-over of the account takes long: the next one goes to another runner")
		m.end(false, now)
	}
}

func (h *Host) wishes(now time.Time) []wish {
	held := make(map[string]time.Time, len(h.Accounts))
	for _, a := range h.Accounts {
		if since := a.snapshot().holding.since; !since.IsZero() {
			held[a.Name] = since
		}
	}
	return h.peers.wishes(h.standing(), held, now)
}

// wishes returns the accounts of own that other runners should lead. held maps the held
// accounts to their start.
func (p *peers) wishes(own placement.Node, held map[string]time.Time, now time.Time) (all []wish) {
	placed := p.place(own, "", now)
	for account, since := range held {
		to := placed[account]
		if to == "" || to == own.Name {
			continue
		}
		n, living := p.runner(to, now)
		all = append(all, wish{
			account: account, to: to, pinned: p.givenTo(account, now) == to, held: since, came: n.first,
			ready: living && slices.Contains(n.placed().Ready, account),
		})
	}
	return all
}

func (h *Host) account(name string) *account {
	for _, a := range h.Accounts {
		if a.Name == name {
			return a
		}
	}
	return nil
}
