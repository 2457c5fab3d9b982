// What a runner says of itself for `perennial nodes`, and what it heard of the others.

package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"perennial/cmd/perennial/internal/config"
	"perennial/ledger/sleep"
	"perennial/queue"
)

// Node is a runner of the configuration, as `nodes -o json` prints it.
type Node struct {
	Node      string        `json:"node"`
	Version   string        `json:"version"`
	StartedAt time.Time     `json:"started_at"`
	Accounts  []NodeAccount `json:"accounts"`
}

// NodeAccount is what a runner does with an account.
type NodeAccount struct {
	Account string `json:"account"`
	Role    string `json:"role"` // active or standby
	Head    int64  `json:"head"` // the newest row of its ledger
	Lag     uint64 `json:"lag"`  // rows of the events stream that a standby has not folded yet
}

// node is what this runner says of itself.
func (h *Host) node(ctx context.Context) Node {
	n := Node{Node: h.holder, Version: config.Version, StartedAt: h.started, Accounts: []NodeAccount{}}
	for _, a := range h.Accounts {
		one := NodeAccount{Account: a.Name, Role: a.role()}
		one.Head, _, _ = a.Ledger.Head(ctx) // 0 where it cannot be read: /readyz says why
		if one.Role == roleStandby {
			one.Lag, _ = a.standby.read()
		}
		n.Accounts = append(n.Accounts, one)
	}
	return n
}

// nodeEvery is how often a runner says that it lives.
const nodeEvery = queue.NodeLife / 3

// keepNode says on an external NATS that this runner lives, until ctx ends.
func (h *Host) keepNode(ctx context.Context) {
	defer func() {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = h.Queue.DropNode(limited, h.holder) // else its word runs out
	}()
	for {
		limited, cancel := context.WithTimeout(ctx, nodeEvery)
		if text, err := json.Marshal(h.node(limited)); err == nil {
			_ = h.Queue.PostNode(limited, h.holder, text) // that NATS is away is the matter of a check
		}
		cancel()
		if sleep.For(ctx, nodeEvery) != nil {
			return
		}
	}
}

// Nodes are the living runners, in the order of their names.
func Nodes(ctx context.Context, q *queue.Queue) ([]Node, error) {
	said, err := q.Nodes(ctx)
	if err != nil {
		return nil, err
	}
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

// nodes answers /nodes: every living runner, or this one where there can be no other.
func (s *httpHost) nodes(w http.ResponseWriter, r *http.Request) {
	all, err := []Node{s.host.node(r.Context())}, error(nil)
	if s.host.Embedded == nil {
		limited, cancel := context.WithTimeout(r.Context(), probeTimeout)
		defer cancel()
		all, err = Nodes(limited, s.host.Queue)
	}
	if err != nil {
		http.Error(w, "the other runners cannot be asked for: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(all)
}
