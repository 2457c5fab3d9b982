package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"perennial/cmd/perennial/internal/config"
	"perennial/ledger/sleep"
	"perennial/queue"
	"perennial/queue/lease"
	"perennial/queue/nodes"
)

const (
	// LookEvery is how often a runner checks whether an account should be handed over.
	LookEvery = time.Second
	// settleTime is how long this runner must have known the runner that takes over. Without a
	// pin, this runner must also have led the account for this long.
	settleTime = 3 * time.Second
	// retryFirst and retryMost are the shortest and the longest pause. Each pause is twice as
	// long as the one before. There are two kinds: a pause after a runner has not taken an
	// account, and a pause between two handovers that move the same account to balance the load.
	retryFirst = 5 * time.Second
	retryMost  = time.Minute
	// retryForget is the time after which an earlier pause no longer counts. The next pause is
	// then retryFirst again.
	retryForget = 10 * retryMost
)

// Handing is a handover in progress.
type Handing struct {
	Account, To string
	Began       time.Time
}

// pause is a period without handover attempts.
type pause struct {
	until time.Time
	delay time.Duration
}

// longer returns the pause after p, which is twice as long, up to retryMost. If p ended more
// than retryForget ago, the new pause is retryFirst.
func (p pause) longer(now time.Time) pause {
	if now.Sub(p.until) > retryForget {
		p.delay = 0
	}
	delay := min(max(2*p.delay, retryFirst), retryMost)
	return pause{until: now.Add(delay), delay: delay}
}

// Mover decides when an account is handed over. Its zero value is ready to use.
type Mover struct {
	Now    *Handing          // handover in progress, or nil
	wished map[string]string // wishes at the previous check; the key is the account, and the value is the node
	failed map[string]pause  // the key is a node that did not take the last account offered to it
	moved  map[string]pause  // the key is an account that was handed over
}

// Wish is an account that another runner should lead.
type Wish struct {
	account, to string
	pinned      bool
	held        time.Time // when this runner began to lead the account
	firstHeard  time.Time // when this runner first heard from the other runner
	ready       bool      // the other runner could lead the account immediately
}

// Choose returns the handover to begin now. It chooses only a wish that already existed at the
// previous check. The receiver must be ready, known for settleTime, and not in a pause after a
// failed handover. Choose returns nil if no wish qualifies, or while a handover is in progress.
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
	if !w.ready || now.Sub(w.firstHeard) < settleTime || now.Before(m.failed[w.to].until) {
		return false
	}
	return w.pinned || now.Sub(w.held) >= settleTime && !now.Before(m.moved[w.account].until)
}

// End ends the handover in progress and records whether the other runner took the account.
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

// borrowWithin limits how long a leader may take to hand an account over to a CLI command.
const borrowWithin = 2 * time.Minute

// Borrower is a CLI command that needs exclusive use of an account.
type Borrower struct {
	Queue   *queue.Queue
	Account string
	Name    string // name of the command among the runners; no other process has it

	started time.Time
	holds   atomic.Bool
}

// Borrow returns the account's lease. If a runner leads the account, Borrow asks the runner
// to hand it over and waits until the runner has finished its work in progress. If this
// takes more than two minutes, Borrow returns an error with the runner's name. giveBack
// releases the lease.
func (b *Borrower) Borrow(ctx context.Context) (taken *lease.Lease, giveBack func(context.Context), err error) {
	taken, err = lease.New(b.Queue.JetStream(), 1).TryAcquire(ctx, b.Account, b.Name, LeaseTTL)
	if _, held := errors.AsType[*lease.HeldError](err); !held {
		return taken, func(ctx context.Context) { _ = taken.Release(ctx) }, err
	}
	b.started = time.Now().UTC()
	saying, stop := context.WithCancel(context.WithoutCancel(ctx))
	var said sync.WaitGroup
	said.Go(func() { b.announce(saying) })
	end := func(ctx context.Context) {
		stop()
		said.Wait()
		_ = nodes.Drop(ctx, b.Queue.JetStream(), b.Name) // if this fails, the heartbeat expires
	}
	limited, cancel := context.WithTimeout(ctx, borrowWithin)
	defer cancel()
	taken, err = lease.New(b.Queue.JetStream(), 1).Acquire(limited, b.Account, b.Name, LeaseTTL, lease.Turn{})
	if err != nil {
		end(context.WithoutCancel(ctx))
		return nil, nil, fmt.Errorf("account %s was not handed over: %w", b.Account, err)
	}
	b.holds.Store(true)
	return taken, func(ctx context.Context) {
		end(ctx)
		_ = taken.Release(ctx)
	}, nil
}

// announce sends heartbeats until ctx ends. With a heartbeat, the command asks for the account
// or reports that it has the account. If the command is killed, its heartbeat expires.
func (b *Borrower) announce(ctx context.Context) {
	for {
		holds := b.holds.Load()
		one := NodeAccount{Account: b.Account, Role: RoleStandby, Ready: !holds, Lease: holds, Borrows: true}
		n := Node{Node: b.Name, Version: config.Version, StartedAt: b.started, SaidAt: time.Now().UTC(), Accounts: []NodeAccount{one}}
		limited, cancel := context.WithTimeout(ctx, Heartbeat)
		if text, err := json.Marshal(n); err == nil {
			_ = nodes.Post(limited, b.Queue.JetStream(), b.Name, text, 1) // an error is ignored, because the next heartbeat follows
		}
		cancel()
		if sleep.For(ctx, time.Second) != nil {
			return
		}
	}
}
