// This runner's own state for `perennial runners`, and the other runners' states.

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
		one.Head, _, _ = a.Ledger().Head(ctx) // 0 if unreadable: /readyz says why
		if one.Role == cluster.RoleStandby {
			one.Lag, _ = a.standby.read()
		}
		n.Accounts = append(n.Accounts, one)
	}
	return n
}

// sayAgain is how long a runner waits before it sends a change.
const sayAgain = 100 * time.Millisecond

// announce sends this runner's changed state soon.
func (h *Host) announce() {
	select {
	case h.changed <- struct{}{}:
	default: // already requested
	}
}

// keepNode sends this runner's state on an external NATS until ctx ends.
func (h *Host) keepNode(ctx context.Context) {
	defer func() {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = nodes.Drop(limited, h.Queue.JetStream(), h.name.Get()) // otherwise its message expires
	}()
	for {
		limited, cancel := context.WithTimeout(ctx, cluster.Heartbeat)
		text, err := json.Marshal(h.node(limited))
		if err == nil {
			err = nodes.Post(limited, h.Queue.JetStream(), h.name.Get(), text, h.replicas()) // a check reports that NATS is away
		}
		cancel()
		if err != nil { // the others wait for this message once NATS is back
			err = sleep.For(ctx, watchAgain)
		} else {
			err = h.awaitChange(ctx)
		}
		if err != nil {
			return
		}
	}
}

// awaitChange returns when it is time to send the state again.
func (h *Host) awaitChange(ctx context.Context) error {
	if err := sleep.For(ctx, sayAgain); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, cluster.Heartbeat-sayAgain)
	defer cancel()
	select {
	case <-h.changed:
	case <-limited.Done():
	}
	return ctx.Err()
}

// living returns the live runners, or only this one on the embedded server.
func (h *Host) living(ctx context.Context) ([]cluster.Node, error) {
	if h.Embedded != nil {
		return []cluster.Node{h.node(ctx)}, nil
	}
	limited, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return cluster.Nodes(limited, h.Queue)
}

// nodes answers /nodes.
func (s *httpHost) nodes(w http.ResponseWriter, r *http.Request) {
	if !s.pages.MayRead(r) {
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "sign in first: `perennial runners` does", http.StatusUnauthorized)
		return
	}
	all, err := s.host.living(r.Context())
	if err != nil {
		http.Error(w, "the other runners cannot be asked for: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(all)
}
