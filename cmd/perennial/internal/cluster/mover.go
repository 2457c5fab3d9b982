// When an account is handed over.

package cluster

import (
	"cmp"
	"slices"
	"time"
)

const (
	// LookEvery is how often a runner checks whether an account should be handed over.
	LookEvery = time.Second
	// settles is how long a runner must be known, and an account held, before the
	// account is handed over.
	settles = 3 * time.Second
	// againFirst and againMost bound the wait after a failed handover to a runner, and
	// the wait before the same runner hands the same account over again to balance
	// shares. It doubles each time.
	againFirst = 5 * time.Second
	againMost  = time.Minute
	// forgets is how long after such a wait the next one starts at againFirst.
	forgets = 10 * againMost
)

// Handing is a handover in progress.
type Handing struct {
	Account, To string
	Began       time.Time
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

// Mover decides when an account is handed over. Its zero value is ready to use.
type Mover struct {
	Now    *Handing          // in progress
	wished map[string]string // at the previous check: node by account
	failed map[string]pause  // by node: it did not take its account
	moved  map[string]pause  // by account: it was handed over
}

// Wish is an account that another runner should lead.
type Wish struct {
	account, to string
	pinned      bool
	held        time.Time // since when this runner holds it
	came        time.Time // when the other runner was first heard of
	ready       bool      // the other runner could lead the account at once
}

// Choose returns the handover to begin now, nil for none. It was wished at the previous
// check too, and its receiver is known for a while and took its last account.
func (m *Mover) Choose(wishes []Wish, now time.Time) *Handing {
	before := m.wished
	m.wished = map[string]string{}
	for _, w := range wishes {
		m.wished[w.account] = w.to
	}
	if m.Now != nil {
		return nil
	}
	slices.SortFunc(wishes, func(a, b Wish) int {
		if a.pinned != b.pinned {
			return map[bool]int{true: -1, false: 1}[a.pinned]
		}
		return cmp.Compare(a.account, b.account)
	})
	for _, w := range wishes {
		if before[w.account] == w.to && m.may(w, now) {
			m.Now = &Handing{w.account, w.to, now}
			return m.Now
		}
	}
	return nil
}

func (m *Mover) may(w Wish, now time.Time) bool {
	if !w.ready || now.Sub(w.came) < settles || now.Before(m.failed[w.to].until) {
		return false
	}
	return w.pinned || now.Sub(w.held) >= settles && !now.Before(m.moved[w.account].until)
}

// End notes the result of the handover in progress: a runner took the account, or none
// did.
func (m *Mover) End(took bool, now time.Time) {
	if m.failed == nil {
		m.failed, m.moved = map[string]pause{}, map[string]pause{}
	}
	x := *m.Now
	m.Now = nil
	m.moved[x.Account] = m.moved[x.Account].longer(now)
	if took {
		delete(m.failed, x.To)
	} else {
		m.failed[x.To] = m.failed[x.To].longer(now)
	}
}
