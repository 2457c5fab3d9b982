// The heartbeats of runners.

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

// Node is a runner of the configuration, as `runners -o json` prints it.
type Node struct {
	Node      string        `json:"node"`
	Holder    string        `json:"holder,omitempty"` // name under which the runner holds leases
	Version   string        `json:"version"`
	StartedAt time.Time     `json:"started_at"`
	SaidAt    time.Time     `json:"said_at"`
	Address   string        `json:"address,omitempty"`   // address of the runner's machine, as an external NATS server sees it
	HTTPPort  int           `json:"http_port,omitempty"` // port of /readyz and the web UI; 0 for a command that borrows an account
	Stopping  bool          `json:"stopping,omitempty"`  // whether the runner is draining and takes no account
	Accounts  []NodeAccount `json:"accounts"`
}

// NodeAccount is the state of one account on a runner.
type NodeAccount struct {
	Account string `json:"account"`
	Role    string `json:"role"` // active or standby
	Head    int64  `json:"head"` // newest row of the runner's ledger
	Lag     uint64 `json:"lag"`  // rows of the events stream that a standby's ledger does not have yet
	// Lease means that the runner has the account's lease. It has the lease before it becomes
	// active and until it has drained.
	Lease bool `json:"lease"`
	Ready bool `json:"ready"` // whether the leader works, or the standby could lead the account immediately
	// Borrows means that the sender is a CLI command that asks for the account or has it.
	Borrows bool `json:"borrows,omitempty"`
	// Settings is a hash of the account's settings and schedules; see
	// [config.Config.SettingsOf].
	Settings string `json:"settings,omitempty"`
}

// Roles of a runner for an account.
const (
	RoleActive  = "active"
	RoleStandby = "standby"
)

// LeaseTTL is how long a dead runner keeps its lease on an external NATS.
const LeaseTTL = 10 * time.Second

// Nodes returns the live runners, sorted by name.
func Nodes(ctx context.Context, q *queue.Queue) ([]Node, error) {
	said, err := nodes.All(ctx, q.JetStream())
	if err != nil {
		return nil, err
	}
	all, err := NodesSaid(said)
	if len(all) > 0 {
		err = nil // the others can be read
	}
	return all, err
}

// NodesSaid decodes heartbeats and returns the runners, sorted by name. It leaves out a
// heartbeat that cannot be read, for example of a later version. The error is about the last
// one that it left out.
func NodesSaid(said [][]byte) (all []Node, unreadable error) {
	all = make([]Node, 0, len(said))
	for _, text := range said {
		var n Node
		if err := json.Unmarshal(text, &n); err != nil {
			unreadable = fmt.Errorf("what a runner says of itself cannot be read: %w", err)
			continue
		}
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b Node) int { return cmp.Compare(a.Node, b.Node) })
	return all, unreadable
}

// OtherSettings returns one message for each account on which runners differ in settings or
// schedules. It compares the runners with the leader, or with the first runner if no runner
// leads. A handover between such runners would change what is renewed. Runners of different
// versions are not compared, because their settings have different fields.
func OtherSettings(nodes []Node) (lines []string) {
	type claim struct{ node, version, settings string }
	first, others := map[string]claim{}, map[string][]string{}
	for _, active := range []bool{true, false} { // leaders come first
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

// OtherSettingsAdvice is the advice for runners that [OtherSettings] reports.
const OtherSettingsAdvice = "give all runners the same accounts and schedules in perennial.yaml, and restart those that differ: a handover would change what is renewed"

// Heartbeat is the interval between two heartbeats of a runner.
const Heartbeat = nodes.NodeLife / 3
