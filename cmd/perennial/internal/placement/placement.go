// Package placement decides which runner should hold which account. It is a pure function:
// every runner computes the same answer from the same heartbeats, without coordination.
//
// It promises:
//
//   - A person's pin wins while the named node can run the account.
//   - An account stays with its holder unless balance requires a move.
//   - A node never holds two or more accounts more than another node that could run one
//     of them.
//     If every node can run every account, the shares differ by at most one.
//   - As few accounts as possible move: those of a lost node, and those that a new
//     node needs for an even share.
//   - Between nodes with equal shares, each account has its own order of preference
//     (rendezvous hashing over the names). No node is favoured.
package placement

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
)

// Node is a live runner.
type Node struct {
	Name  string
	Holds []string // accounts it runs now
	Ready []string // accounts it could run at once but does not
}

// plan is a placement in progress.
type plan struct {
	nodes  []string                   // sorted
	able   map[string]map[string]bool // account → nodes that can run it
	holder map[string]string          // account → node
	pinned map[string]bool
	load   map[string]int // node → accounts
}

// Of returns the node that should hold each account. It leaves out an account that no node
// can run. pins maps accounts to nodes. The order of nodes and accounts does not matter.
func Of(nodes []Node, accounts []string, pins map[string]string) map[string]string {
	accounts = slices.Compact(slices.Sorted(slices.Values(accounts)))
	p := newPlan(nodes, accounts)
	for _, a := range accounts {
		if pin := pins[a]; p.able[a][pin] {
			p.put(a, pin)
			p.pinned[a] = true
		}
	}
	for _, a := range accounts {
		if p.holder[a] == "" {
			p.put(a, p.stays(nodes, a))
		}
	}
	for _, a := range accounts {
		if p.holder[a] == "" {
			p.put(a, p.leastLoaded(a))
		}
	}
	for p.even() { // each step reduces the sum of the squared shares
	}
	return p.holder
}

func newPlan(nodes []Node, accounts []string) *plan {
	p := &plan{able: map[string]map[string]bool{}, holder: map[string]string{}, pinned: map[string]bool{}, load: map[string]int{}}
	for _, a := range accounts {
		p.able[a] = map[string]bool{}
	}
	for _, n := range nodes {
		p.load[n.Name] = 0
		for _, a := range slices.Concat(n.Holds, n.Ready) {
			if p.able[a] != nil {
				p.able[a][n.Name] = true
			}
		}
	}
	p.nodes = slices.Sorted(maps.Keys(p.load))
	return p
}

// put assigns an account to a node, or to none for "".
func (p *plan) put(account, node string) {
	if was := p.holder[account]; was != "" {
		p.load[was]--
	}
	if node == "" {
		return
	}
	p.holder[account] = node
	p.load[node]++
}

// stays returns the node that holds an account. If heartbeats of different times name two,
// it returns the preferred one.
func (p *plan) stays(nodes []Node, account string) string {
	var holders []string
	for _, n := range nodes {
		if slices.Contains(n.Holds, account) {
			holders = append(holders, n.Name)
		}
	}
	if len(holders) == 0 {
		return ""
	}
	return slices.MinFunc(holders, func(a, b string) int { return prefer(account, a, b) })
}

// leastLoaded returns the node with the smallest share that can run an account, or "". The
// account's preference breaks ties.
func (p *plan) leastLoaded(account string) string {
	able := slices.Collect(maps.Keys(p.able[account]))
	if len(able) == 0 {
		return ""
	}
	return slices.MinFunc(able, func(a, b string) int {
		return cmp.Or(cmp.Compare(p.load[a], p.load[b]), prefer(account, a, b))
	})
}

// even moves one account to a node with at least two fewer accounts than its holder. It
// reports whether it moved one.
func (p *plan) even() bool {
	byLoad := slices.SortedFunc(slices.Values(p.nodes), func(a, b string) int {
		return cmp.Or(cmp.Compare(p.load[a], p.load[b]), cmp.Compare(a, b))
	})
	for _, to := range byLoad {
		if a := p.takes(to); a != "" {
			p.put(a, to)
			return true
		}
	}
	return false
}

// takes returns the account that a node should take from a node with two more, or "". It
// takes from the largest share the account that most prefers this node.
func (p *plan) takes(to string) string {
	best := ""
	for _, a := range slices.Sorted(maps.Keys(p.holder)) {
		if p.pinned[a] || !p.able[a][to] || p.load[p.holder[a]] < p.load[to]+2 {
			continue
		}
		if best == "" || cmp.Or(cmp.Compare(p.load[p.holder[best]], p.load[p.holder[a]]), cmp.Compare(weight(best, to), weight(a, to))) < 0 {
			best = a
		}
	}
	return best
}

// prefer compares two nodes by an account's preference.
func prefer(account, a, b string) int {
	return cmp.Or(cmp.Compare(weight(account, b), weight(account, a)), cmp.Compare(a, b))
}

// weight is an account's preference for a node: a hash of both names, independent of other
// nodes.
func weight(account, node string) uint64 {
	sum := sha256.Sum256([]byte(node + "\x00" + account))
	return binary.BigEndian.Uint64(sum[:8])
}
