// The lending of an account to a CLI command, such as `ledger archive`. The leader hands the
// account over to the command, and leads it again when the command ends.

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"perennial/cmd/perennial/internal/config"
	"perennial/ledger/sleep"
	"perennial/queue"
	"perennial/queue/lease"
	"perennial/queue/nodes"
)

// borrowWithin limits how long a leader may take to hand an account over to a CLI command.
const borrowWithin = 2 * time.Minute

// Borrower is a CLI command that needs exclusive use of an account.
type Borrower struct {
	Queue   *queue.Queue
	Account string
	Name    string // name of the command among the runners; no other process has it

	started time.Time
	mu      sync.Mutex
	holds   bool
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
	b.mu.Lock()
	b.holds = true
	b.mu.Unlock()
	return taken, func(ctx context.Context) {
		end(ctx)
		_ = taken.Release(ctx)
	}, nil
}

// announce sends heartbeats until ctx ends. With a heartbeat, the command asks for the account
// or reports that it has the account. If the command is killed, its heartbeat expires.
func (b *Borrower) announce(ctx context.Context) {
	for {
		b.mu.Lock()
		one := NodeAccount{Account: b.Account, Role: RoleStandby, Ready: !b.holds, Lease: b.holds, Borrows: true}
		b.mu.Unlock()
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
