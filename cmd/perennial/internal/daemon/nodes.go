// The heartbeat with this runner's own state, and the list of live runners.

package daemon

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"perennial/cmd/perennial/internal/cluster"
	"perennial/cmd/perennial/internal/config"
	"perennial/ledger/sleep"
	"perennial/queue/nodes"
)

// node returns this runner's state.
func (h *Host) node(ctx context.Context) cluster.Node {
	n := cluster.Node{Node: h.name.Get(), Holder: h.holder, Version: config.Version, StartedAt: h.started, SaidAt: time.Now().UTC(), Address: h.Queue.LocalAddress(), HTTPPort: h.HTTP.port(),
		Stopping: h.stopping.Load(), Accounts: []cluster.NodeAccount{}}
	for _, a := range h.Accounts {
		one := cluster.NodeAccount{Account: a.Name, Role: a.role(), Lease: a.holds(), Ready: a.couldRun() || a.runs(), Settings: h.Config.SettingsOf(a.Name)}
		one.Head, _, _ = a.Ledger().Head(ctx) // 0 if the ledger cannot be read, which /readyz explains
		if one.Role == cluster.RoleStandby {
			one.Lag, _ = a.standby.read()
		}
		n.Accounts = append(n.Accounts, one)
	}
	return n
}

// announceDelay is the shortest interval between two heartbeats.
const announceDelay = 100 * time.Millisecond

// announce requests a heartbeat with this runner's changed state.
func (h *Host) announce() {
	select {
	case h.changed <- struct{}{}:
	default: // a heartbeat is already requested
	}
}

// keepNode sends this runner's state as heartbeats on an external NATS until ctx ends.
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

// awaitChange returns when the state has changed or the next heartbeat is due.
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

// nodes serves the live runners as JSON.
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
