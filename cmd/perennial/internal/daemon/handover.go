// Handover of an account to the runner that should lead it. A runner hands over one account
// at a time. It drains the account in the same way as when the process stops.

package daemon

import (
	"context"
	"fmt"
	"time"

	"perennial/cmd/perennial/internal/cluster"
	"perennial/ledger/sleep"
)

// handOverMost limits a handover: draining, publishing the last events, and the other runner's
// start. A handover that takes longer has failed.
const handOverMost = time.Minute

// holding is the period in which a runner has an account's lease. The zero value means that it
// does not have the lease.
type holding struct {
	since  time.Time
	giveUp func() // drains the account and releases the lease
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

// handOvers hands accounts over, one at a time, until ctx ends.
func (h *Host) handOvers(ctx context.Context) {
	var m cluster.Mover
	for sleep.For(ctx, cluster.LookEvery) == nil {
		if h.stopping.Load() {
			continue
		}
		h.lookAtHandOver(&m, time.Now())
		x := m.Choose(h.wishes(time.Now()), time.Now())
		if x == nil {
			continue
		}
		a := h.account(x.Account)
		a.log.WithField("to", x.To).Info("the account is handed over: operations in progress are finished, no others begin")
		if give := a.snapshot().holding.giveUp; give != nil {
			give()
		}
	}
}

// lookAtHandOver ends a handover in progress when another runner leads the account or this
// runner leads it again. It also ends a handover that takes too long.
func (h *Host) lookAtHandOver(m *cluster.Mover, now time.Time) {
	if m.Now == nil {
		return
	}
	x, a := *m.Now, h.account(m.Now.Account)
	log := a.log.WithField("to", x.To)
	switch holder := h.peers.Holder(x.Account, h.name.Get(), now); {
	case a.snapshot().holding.since.After(x.Began):
		log.Warn("the account was handed over and not taken: this runner continues with it")
		m.End(false, now)
	case holder != "":
		log.WithField("holder", holder).Info("the account was handed over")
		m.End(true, now)
	case now.Sub(x.Began) > handOverMost:
		log.Warn("the hand-over of the account takes long: the next one goes to another runner")
		m.End(false, now)
	}
}

func (h *Host) wishes(now time.Time) []cluster.Wish {
	held := make(map[string]time.Time, len(h.Accounts))
	for _, a := range h.Accounts {
		if since := a.snapshot().holding.since; !since.IsZero() {
			held[a.Name] = since
		}
	}
	return h.peers.Wishes(h.ownPlacement(), held, now)
}

func (h *Host) account(name string) *account {
	for _, a := range h.Accounts {
		if a.Name == name {
			return a
		}
	}
	return nil
}
