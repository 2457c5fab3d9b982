// This runner's own state for `perennial runners`, and the other runners' states.

package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"perennial/cmd/perennial/internal/config"
	"perennial/ledger/sleep"
	"perennial/queue"
	"perennial/queue/nodes"
)

// Node is a runner of the configuration, as `nodes -o json` prints it.
type Node struct {
	Node      string        `json:"node"`
	Holder    string        `json:"holder,omitempty"` // its name as the holder of leases
	Version   string        `json:"version"`
	StartedAt time.Time     `json:"started_at"`
	SaidAt    time.Time     `json:"said_at"`
	Address   string        `json:"address,omitempty"`   // of its machine, as an external NATS server sees it
	HTTPPort  int           `json:"http_port,omitempty"` // of /readyz and the pages; a command that borrows an account has none
	Stopping  bool          `json:"stopping,omitempty"`  // it drains, and takes no account
	Accounts  []NodeAccount `json:"accounts"`
}

// NodeAccount is what a runner does with an account.
type NodeAccount struct {
	Account string `json:"account"`
	Role    string `json:"role"` // active or standby
	Head    int64  `json:"head"` // the newest row of its ledger
	Lag     uint64 `json:"lag"`  // rows of the events stream that a standby has not folded yet
	// Lease says that it has the account's lease, from before it is active until it has drained.
	Lease bool `json:"lease"`
	Ready bool `json:"ready"` // it runs the account, or is a standby that could run it at once
	// Borrows says that it is a command which wants the account for itself, or has it.
	Borrows bool `json:"borrows,omitempty"`
	// Settings is a hash of the account's settings and schedules; see [config.Config.SettingsOf].
	Settings string `json:"settings,omitempty"`
}

// node returns this runner's state.
func (h *Host) node(ctx context.Context) Node {
	n := Node{Node: h.name.get(), Holder: h.holder, Version: config.Version, StartedAt: h.started, SaidAt: time.Now().UTC(), Address: h.Queue.LocalAddress(), HTTPPort: h.HTTP.port(),
		Stopping: h.stopping.Load(), Accounts: []NodeAccount{}}
	for _, a := range h.Accounts {
		one := NodeAccount{Account: a.Name, Role: a.role(), Lease: a.holds(), Ready: a.couldRun() || a.runs(), Settings: h.Config.SettingsOf(a.Name)}
		one.Head, _, _ = a.Ledger().Head(ctx) // 0 if unreadable: /readyz says why
		if one.Role == roleStandby {
			one.Lag, _ = a.standby.read()
		}
		n.Accounts = append(n.Accounts, one)
	}
	return n
}

// nodeEvery is the interval of a runner's heartbeat.
const nodeEvery = nodes.NodeLife / 3

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
		_ = nodes.Drop(limited, h.Queue.JetStream(), h.name.get()) // otherwise its message expires
	}()
	for {
		limited, cancel := context.WithTimeout(ctx, nodeEvery)
		text, err := json.Marshal(h.node(limited))
		if err == nil {
			err = nodes.Post(limited, h.Queue.JetStream(), h.name.get(), text, h.replicas()) // a check reports that NATS is away
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
	limited, cancel := context.WithTimeout(ctx, nodeEvery-sayAgain)
	defer cancel()
	select {
	case <-h.changed:
	case <-limited.Done():
	}
	return ctx.Err()
}

// Nodes returns the live runners, by name.
func Nodes(ctx context.Context, q *queue.Queue) ([]Node, error) {
	said, err := nodes.All(ctx, q.JetStream())
	if err != nil {
		return nil, err
	}
	return nodesSaid(said)
}

// nodesSaid decodes the runners' states, by name.
func nodesSaid(said [][]byte) ([]Node, error) {
	all := make([]Node, 0, len(said))
	for _, text := range said {
		var n Node
		if err := json.Unmarshal(text, &n); err != nil {
			return nil, fmt.Errorf("what a runner says of itself cannot be read: %w", err)
		}
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b Node) int { return cmp.Compare(a.Node, b.Node) })
	return all, nil
}

// OtherSettings returns, for each account, the runners whose settings or schedules
// differ from the leader's, or from the first runner's without a leader. A handover to
// them would change what is renewed. Runners of other versions are not compared: their
// settings have other fields.
func OtherSettings(nodes []Node) (lines []string) {
	type claim struct{ node, version, settings string }
	first, others := map[string]claim{}, map[string][]string{}
	for _, active := range []bool{true, false} { // leaders first
		for _, n := range nodes {
			for _, x := range n.Accounts {
				is, known := first[x.Account]
				switch {
				case (x.Role == roleActive) != active || x.Settings == "":
				case !known:
					first[x.Account] = claim{n.Node, n.Version, x.Settings}
				case n.Version == is.version && x.Settings != is.settings:
					others[x.Account] = append(others[x.Account], n.Node)
				}
			}
		}
	}
	for _, account := range slices.Sorted(maps.Keys(others)) {
		lines = append(lines, fmt.Sprintf("account %s: %s has other settings or schedules than %s", account, strings.Join(others[account], ", "), first[account].node))
	}
	return lines
}

// OtherSettingsAdvice says what to do about [OtherSettings].
const OtherSettingsAdvice = "give all runners the same accounts and schedules in perennial.yaml, and start those that differ again: a handover would change what is renewed"

// living returns the live runners, or only this one on the embedded server.
func (h *Host) living(ctx context.Context) ([]Node, error) {
	if h.Embedded != nil {
		return []Node{h.node(ctx)}, nil
	}
	limited, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return Nodes(limited, h.Queue)
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
