// What runners say of themselves.

package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

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

// Roles of a runner for an account.
const (
	RoleActive  = "active"
	RoleStandby = "standby"
)

// LeaseTTL is how long a dead runner blocks an account on an external NATS.
const LeaseTTL = 10 * time.Second

// Nodes returns the live runners, by name.
func Nodes(ctx context.Context, q *queue.Queue) ([]Node, error) {
	said, err := nodes.All(ctx, q.JetStream())
	if err != nil {
		return nil, err
	}
	return NodesSaid(said)
}

// NodesSaid decodes the runners' states, by name.
func NodesSaid(said [][]byte) ([]Node, error) {
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
				case (x.Role == RoleActive) != active || x.Settings == "":
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

// Heartbeat is how often a runner says that it lives.
const Heartbeat = nodes.NodeLife / 3
