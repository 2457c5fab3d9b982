// The other runners, and which runner should lead which account.

package daemon

import (
	"context"
	"sync"
	"time"

	"perennial/cmd/perennial/internal/cluster"
	"perennial/cmd/perennial/internal/placement"
	"perennial/ledger/sleep"
	"perennial/queue/nodes"
)

const (
	// fewRows limits the lag of a standby that takes over an account.
	fewRows = 1000
	// rewatchDelay is the time until the buckets are watched again, after a failure or if they
	// do not exist.
	rewatchDelay = time.Second
)

// followPeers receives the runners' heartbeats and the operators' pins until ctx ends.
func (h *Host) followPeers(ctx context.Context) {
	var both sync.WaitGroup
	var unread error // why a heartbeat could not be read; logged when it changes
	again := func(watch func(context.Context) error) {
		for ctx.Err() == nil {
			limited, cancel := context.WithTimeout(ctx, nodes.NodeLife) // a new watch also finds a recreated bucket
			_ = watch(limited)                                          // the check of NATS in /readyz reports errors
			ended := limited.Err() != nil
			cancel()
			if !ended {
				_ = sleep.For(ctx, rewatchDelay)
			}
		}
	}
	both.Go(func() {
		again(func(ctx context.Context) error {
			return nodes.Watch(ctx, h.Queue.JetStream(), func(said [][]byte) {
				all, err := cluster.NodesSaid(said)
				if err != nil && (unread == nil || unread.Error() != err.Error()) {
					h.log.WithError(err).Warn("the heartbeat of a runner is left out")
				}
				if unread = err; err == nil || len(all) > 0 {
					if h.name.Note(all, h.holder) {
						h.log.WithField("node", h.name.Get()).Error("another runner on a machine of the same name has the same data_dir: give the machines different host names. This runner calls itself by a longer name now")
					}
					now := time.Now()
					if why := h.peers.Note(all, now); why != "" {
						h.log.Warn(why + ": " + cluster.OtherSettingsAdvice)
					}
					h.peers.NoteSelf(h.name.Get(), h.reconnected(), now)
				}
			})
		})
	})
	both.Go(func() {
		again(func(ctx context.Context) error { return nodes.WatchPins(ctx, h.Queue.JetStream(), h.peers.SetPins) })
	})
	both.Wait()
}

// ownPlacement returns this runner's own state for the placement.
func (h *Host) ownPlacement() placement.Node {
	out := placement.Node{Name: h.name.Get()}
	for _, a := range h.Accounts {
		switch {
		case a.holds():
			if !(accessTest{a}).leaves(time.Now()) {
				out.Holds = append(out.Holds, a.Name)
			}
		case a.couldRun():
			out.Ready = append(out.Ready, a.Name)
		}
	}
	return out
}

// runs reports whether this runner leads the account and the account works.
func (a *account) runs() bool {
	return (a.holds() || a.host.Embedded != nil) && a.role() == cluster.RoleActive && a.notReady() == ""
}

// couldRun reports whether this runner, as a standby, could lead the account immediately.
func (a *account) couldRun() bool {
	return a.snapshot().state == waitsForLease && a.standby.close(fewRows) && a.access.isUsable() && a.notReady() == ""
}
