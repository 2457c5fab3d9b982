// Package placement decides which runner should lead which account. The decision is a pure
// function: every runner computes the same result from the same heartbeats, without
// coordination.
//
// It promises:
//
//   - An operator's pin decides, as long as the pinned node can run the account.
//   - An account stays with its node unless a move is needed to balance the load.
//   - If node B can run an account of node A that is not pinned, then A has at most one
//     account more than B. If every node can run every account and no account is pinned, the
//     numbers of accounts differ by at most one.
//   - As few accounts as possible move: those of a lost node, and those that a new
//     node needs for an even share.
//   - Between nodes with equally many accounts, the account's order of preference decides:
//     rendezvous hashing over the names, which favours no node.
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
	Holds []string // accounts that the node leads now
	Ready []string // other accounts that the node could lead immediately
}

type plan struct {
	nodes  []string                   // sorted
	able   map[string]map[string]bool // account → nodes that can run it
	holder map[string]string          // account → its node
	pinned map[string]bool
	load   map[string]int // node → number of its accounts
}

// Of returns the node that should lead each account. The result omits accounts that no node
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
	for p.even() { // ends, because each move reduces the sum of the squared numbers of accounts
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

// put assigns an account to a node. It does nothing if node is empty and the account has no
// node.
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

// stays returns the node that currently leads an account. It returns "" if no node does.
// Heartbeats of different ages may report two leaders. The account's preference then decides.
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

// leastLoaded returns the node with the fewest accounts among the nodes that can run the
// account. It returns "" if no node can. The account's preference breaks ties.
func (p *plan) leastLoaded(account string) string {
	able := slices.Collect(maps.Keys(p.able[account]))
	if len(able) == 0 {
		return ""
	}
	return slices.MinFunc(able, func(a, b string) int {
		return cmp.Or(cmp.Compare(p.load[a], p.load[b]), prefer(account, a, b))
	})
}

// even moves one account, so that the numbers of accounts become more even. The new node must
// have at least two accounts fewer than the current node. even reports whether it moved an
// account.
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

// takes returns an account that the given node should take over. The account's current node must
// have at least two accounts more than the given node. Accounts of the nodes with the most
// accounts come first. Among them, the account with the strongest preference for the given node
// wins. takes returns "" if no account qualifies.
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

// prefer compares two nodes by an account's preference. The preferred node comes first.
func prefer(account, a, b string) int {
	return cmp.Or(cmp.Compare(weight(account, b), weight(account, a)), cmp.Compare(a, b))
}

// weight returns an account's preference for a node: a hash of both names, independent of the
// other nodes.
func weight(account, node string) uint64 {
	sum := sha256.Sum256([]byte(node + "\x00" + account))
	return binary.BigEndian.Uint64(sum[:8])
}
