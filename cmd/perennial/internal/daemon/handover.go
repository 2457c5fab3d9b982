// How a runner hands accounts over to the runners that should hold them: by draining, as
// at its own end, one account at a time.

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
	// handOverEvery is how often the placement is looked at.
	handOverEvery = time.Second
	// settles is for how long a runner has to be there, and an account held, before the
	// account is handed over.
	settles = 3 * time.Second
	// handOverMost is how long a hand-over may take: the drain, the last events, and the
	// receiver's answer. Then it counts as failed.
	handOverMost = time.Minute
	// againFirst and againMost bound the wait behind a hand-over that failed, before the
	// next one to that runner, and after any, before the same account is handed over by
	// the same runner again for the sake of even shares. It doubles each time.
	againFirst = 5 * time.Second
	againMost  = time.Minute
	// forgets is how long behind such a wait the next one is a first one.
	forgets = 10 * againMost
)

// holding is the time in which a runner has an account's lease. The zero value is that it
// has none.
type holding struct {
	since  time.Time
	giveUp func() // drains, and gives the lease back
}

// errHandedOver ends the work on an account as a stop of the runner does.
var errHandedOver = fmt.Errorf("the account is handed over: %w", context.Canceled)

func (a *account) setHolding(x holding) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.holding = x
	a.host.announce()
}

func (a *account) holds() bool { return !a.snapshot().holding.since.IsZero() }

// handing is a hand-over that is in progress.
type handing struct {
	account, to string
	began       time.Time
}

// pause is a time in which something is not tried again.
type pause struct {
	until time.Time
	delay time.Duration
}

// longer is the pause that follows p.
func (p pause) longer(now time.Time) pause {
	if now.Sub(p.until) > forgets {
		p.delay = 0
	}
	delay := min(max(2*p.delay, againFirst), againMost)
	return pause{until: now.Add(delay), delay: delay}
}

// mover decides when an account is handed over. Its zero value is ready.
type mover struct {
	now    *handing
	wished map[string]string // of the look before: node by account
	failed map[string]pause  // by node: it did not take what it was given
	moved  map[string]pause  // by account: it was handed over
}

// wish is an account that another runner should hold.
type wish struct {
	account, to string
	pinned      bool
	held        time.Time // since when this runner holds it
	came        time.Time // when the other one was first heard of
	ready       bool      // the other one lives, and could run the account at once
}

// choose is the hand-over to begin now, nil for none: one that was wished at the look
// before too, to a runner that is there for a while and took what it was given last.
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

// end notes what became of the hand-over that is in progress: a runner took the account, the
// receiver that was meant or one that was preferred meanwhile, or none did.
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

// lookAtHandOver ends a hand-over that is in progress: another runner says that it has the
// account, or this one has taken it back, or it takes too long.
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

// wishes are the accounts of own that other runners should hold. held says since when it
// holds which account.
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
