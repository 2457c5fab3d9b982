package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"perennial/cmd/perennial/internal/cluster"
	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/placement"
	"perennial/ledger/sleep"
	"perennial/queue/nodes"
)

const (
	// fewRows limits a standby's lag, in rows. A standby that lags more cannot take over an
	// account.
	fewRows = 1000
	// rewatchDelay is the wait before the buckets are watched again. It follows a failure, or a
	// check that found no bucket.
	rewatchDelay = time.Second
)

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

// ownPlacement returns this runner's own state for the placement. It omits an account that this
// runner leads but should leave to a standby, because the runner has no access to the provider.
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

func (a *account) runs() bool {
	return (a.holds() || a.host.Embedded != nil) && a.role() == cluster.RoleActive && a.notReady() == ""
}

// couldRun reports whether this runner, as a standby, could lead the account immediately.
func (a *account) couldRun() bool {
	x := a.snapshot()
	return x.state == waitsForLease && x.standby.close(fewRows) && x.access.usable && a.notReady() == ""
}

func (h *Host) node(ctx context.Context) cluster.Node {
	n := cluster.Node{Node: h.name.Get(), Holder: h.holder, Version: config.Version, StartedAt: h.started, SaidAt: time.Now().UTC(), Address: h.Queue.LocalAddress(), HTTPPort: h.HTTP.port(),
		Stopping: h.stopping.Load(), Accounts: []cluster.NodeAccount{}}
	for _, a := range h.Accounts {
		one := cluster.NodeAccount{Account: a.Name, Role: a.role(), Lease: a.holds(), Ready: a.couldRun() || a.runs(), Settings: h.Config.SettingsOf(a.Name)}
		one.Head, _, _ = a.Ledger().Head(ctx) // 0 if the ledger cannot be read, which /readyz explains
		if one.Role == cluster.RoleStandby {
			one.Lag = a.snapshot().standby.lag
		}
		n.Accounts = append(n.Accounts, one)
	}
	return n
}

// announceDelay is the shortest interval between two heartbeats.
const announceDelay = 100 * time.Millisecond

func (h *Host) announce() {
	select {
	case h.changed <- struct{}{}:
	default: // a heartbeat is already requested
	}
}

func (h *Host) keepNode(ctx context.Context) {
	defer func() {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = nodes.Drop(limited, h.Queue.JetStream(), h.name.Get()) // if this fails, the heartbeat expires
	}()
	for {
		limited, cancel := context.WithTimeout(ctx, cluster.Heartbeat)
		text, err := json.Marshal(h.node(limited))
		if err == nil {
			err = nodes.Post(limited, h.Queue.JetStream(), h.name.Get(), text, h.replicas()) // an error needs no log entry, because the check of NATS reports it
		}
		cancel()
		if err != nil { // retry soon, because the other runners wait for this heartbeat when NATS responds again
			err = sleep.For(ctx, rewatchDelay)
		} else {
			err = h.awaitChange(ctx)
		}
		if err != nil {
			return
		}
	}
}

func (h *Host) awaitChange(ctx context.Context) error {
	if err := sleep.For(ctx, announceDelay); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, cluster.Heartbeat-announceDelay)
	defer cancel()
	select {
	case <-h.changed:
	case <-limited.Done():
	}
	return ctx.Err()
}

// liveRunners returns the live runners. On the embedded server, this runner is the only one.
func (h *Host) liveRunners(ctx context.Context) ([]cluster.Node, error) {
	if h.Embedded != nil {
		return []cluster.Node{h.node(ctx)}, nil
	}
	limited, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return cluster.Nodes(limited, h.Queue)
}

func (s *httpHost) nodes(w http.ResponseWriter, r *http.Request) {
	if !s.pages.MayRead(r) {
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "sign in first: `perennial runners` does", http.StatusUnauthorized)
		return
	}
	all, err := s.host.liveRunners(r.Context())
	if err != nil {
		http.Error(w, "the other runners cannot be asked for: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(all)
}

// handOverMost limits a handover. A handover consists of draining, publishing the last events,
// and the start of the other runner. A handover that takes longer has failed.
const handOverMost = time.Minute

// holding is the period in which a runner has an account's lease. The zero value means that it
// does not have the lease.
type holding struct {
	since  time.Time
	giveUp func() // drains the account and releases the lease
}

// errHandedOver wraps context.Canceled, so work on the account ends as it does when the runner
// stops.
var errHandedOver = fmt.Errorf("the account is handed over: %w", context.Canceled)

func (a *account) setHolding(h holding) {
	a.update(func(x *current) { x.holding = h })
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

// lookAtHandOver ends a handover in progress when another runner has begun to lead the account.
// It also ends the handover if this runner has become the leader again, or if the handover takes
// too long.
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
