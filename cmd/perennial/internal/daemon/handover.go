// How a runner hands accounts over to the runners that should hold them: by draining, as
// at its own end, one account at a time.

package daemon

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

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
	// failedFirst and failedMost bound the wait behind a hand-over that failed.
	failedFirst = 5 * time.Second
	failedMost  = time.Minute
	// staysAway is for how long an account that was handed over is not handed over again
	// by the same runner for the sake of even shares.
	staysAway = time.Minute
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
	a.host.say()
}

// held is since when the runner has the account's lease; zero: it has not.
func (a *account) held() holding {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.holding
}

func (a *account) holds() bool { return !a.held().since.IsZero() }

// handing is a hand-over that is under way.
type handing struct {
	account, to string
	began       time.Time
}

// failure is why a runner is not handed accounts for now.
type failure struct {
	until time.Time
	delay time.Duration
}

// mover decides when an account is handed over. Its zero value is ready.
type mover struct {
	now    *handing
	wished map[string]string    // of the look before: node by account
	failed map[string]failure   // by node
	moved  map[string]time.Time // by account: when it was last handed over
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
	moved, before := m.moved[w.account]
	return w.pinned || now.Sub(w.held) >= settles && (!before || now.Sub(moved) >= staysAway)
}

// end notes what became of the hand-over that is under way: its receiver took the account,
// or did not.
func (m *mover) end(took bool, now time.Time) {
	if m.failed == nil {
		m.failed, m.moved = map[string]failure{}, map[string]time.Time{}
	}
	x := *m.now
	m.now = nil
	m.moved[x.account] = now
	if took {
		delete(m.failed, x.to)
		return
	}
	delay := min(max(2*m.failed[x.to].delay, failedFirst), failedMost)
	m.failed[x.to] = failure{until: now.Add(delay), delay: delay}
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
		a.log.WithField("to", x.to).Info("the account is handed over: what is under way is finished, nothing more is begun")
		if give := a.held().giveUp; give != nil {
			give()
		}
	}
}

// lookAtHandOver ends a hand-over that is under way: another runner says that it has the
// account, or this one has taken it back, or it takes too long.
func (h *Host) lookAtHandOver(m *mover, now time.Time) {
	if m.now == nil {
		return
	}
	x, a := *m.now, h.account(m.now.account)
	log := a.log.WithField("to", x.to)
	switch holder := h.peers.holder(x.account, h.holder, now); {
	case a.held().since.After(x.began):
		log.Warn("the account was handed over and not taken: this runner goes on with it")
		m.end(false, now)
	case holder != "":
		log.WithField("holder", holder).Info("the account was handed over")
		m.end(holder == x.to, now)
	case now.Sub(x.began) > handOverMost:
		log.Warn("the hand-over of the account takes long: the next one goes to another runner")
		m.end(false, now)
	}
}

// wishes are the accounts of this runner that others should hold.
func (h *Host) wishes(now time.Time) (all []wish) {
	own := h.standing()
	placed := h.peers.place(own, "", now)
	for _, a := range h.Accounts {
		held, to := a.held(), placed[a.Name]
		if held.since.IsZero() || to == "" || to == h.holder {
			continue
		}
		n, living := h.peers.runner(to, now)
		all = append(all, wish{
			account: a.Name, to: to, pinned: h.peers.pin(a.Name) == to, held: held.since, came: n.first,
			ready: living && slices.Contains(n.placed().Ready, a.Name),
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
