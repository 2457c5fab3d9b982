// The heartbeats that a runner has received from the other runners.

package cluster

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"perennial/cmd/perennial/internal/placement"
)

// LateAfter is how old a runner's last heartbeat may become before the runner gets no more
// accounts. It exceeds [Heartbeat], because a heartbeat may be a little late.
const LateAfter = Heartbeat + 2*time.Second

// Peers stores the last heartbeat of each runner in the configuration. It is safe for
// concurrent use.
type Peers struct {
	mu    sync.Mutex
	heard map[string]heardNode // the key is the runner's name
	pins  map[string]string    // nodes to which operators have pinned accounts, by account
	echo  echo
	other string // last message about runners with other settings
}

// heardNode is a runner's last heartbeat. first and last are times of this machine, because the
// clocks of machines may differ.
type heardNode struct {
	Node
	first time.Time // when the first heartbeat after the runner's start arrived
	last  time.Time // when the heartbeat arrived
}

// Note stores the last heartbeats of all runners. It returns the message of [OtherSettings] if
// the message has changed, and otherwise "".
func (p *Peers) Note(all []Node, now time.Time) (other string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	heard := make(map[string]heardNode, len(all))
	for _, n := range all {
		x := heardNode{Node: n, first: now, last: now}
		if before, known := p.heard[n.Node]; known {
			if before.StartedAt.Equal(n.StartedAt) {
				x.first = before.first
			}
			if before.SaidAt.Equal(n.SaidAt) {
				x.last = before.last
			}
		}
		heard[n.Node] = x
	}
	p.heard = heard
	was := p.other
	p.other = strings.Join(OtherSettings(slices.DeleteFunc(slices.Clone(all), func(n Node) bool { return !heard[n.Node].lives(now) })), "; ")
	if p.other == was {
		return ""
	}
	return p.other
}

// SetPins stores the pins of operators. pins maps an account to a node.
func (p *Peers) SetPins(pins map[string]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pins = pins
}

// assigned returns the assigned node of each account, by account. A CLI command that borrows
// an account overrides an operator's pin. The caller must hold mu.
func (p *Peers) assigned(now time.Time) map[string]string {
	given := make(map[string]string, len(p.pins))
	maps.Copy(given, p.pins)
	for name, n := range p.heard {
		for _, x := range n.Accounts {
			if x.Borrows && n.lives(now) {
				given[x.Account] = name
			}
		}
	}
	return given
}

// assignedTo returns the node to which an account is assigned, or "".
func (p *Peers) assignedTo(account string, now time.Time) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.assigned(now)[account]
}

// runner returns the last heartbeat of a runner. living reports whether the runner may get
// accounts.
func (p *Peers) runner(node string, now time.Time) (n heardNode, living bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, known := p.heard[node]
	return n, known && n.lives(now)
}

// lives reports whether a runner may get accounts.
func (n heardNode) lives(now time.Time) bool { return !n.Stopping && now.Sub(n.last) < LateAfter }

// Holder returns another live runner that has an account's lease, or "".
func (p *Peers) Holder(account, self string, now time.Time) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, n := range p.heard {
		if name != self && n.lives(now) && slices.ContainsFunc(n.Accounts, func(x NodeAccount) bool { return x.Account == account && x.Lease }) {
			return name
		}
	}
	return ""
}

// Leaves reports whether a runner other than own should lead an account whose lease is free.
// A runner whose heartbeat still contains the lease does not count as the leader, because it
// has released or lost the lease.
func (p *Peers) Leaves(own placement.Node, account string, now time.Time) bool {
	to := p.place(own, account, now)[account]
	return to != "" && to != own.Name
}

// place returns the placement of all accounts on own and the other live runners. free is an
// account that place treats as having no leader, or "".
func (p *Peers) place(own placement.Node, free string, now time.Time) map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	nodes := []placement.Node{own}
	for name, n := range p.heard {
		if name != own.Name && n.lives(now) {
			nodes = append(nodes, n.placed())
		}
	}
	var accounts []string
	for i := range nodes {
		nodes[i].Holds = slices.DeleteFunc(slices.Clone(nodes[i].Holds), func(a string) bool { return a == free })
		accounts = slices.Concat(accounts, nodes[i].Holds, nodes[i].Ready)
	}
	return placement.Of(nodes, accounts, p.assigned(now))
}

// placed converts a heartbeat to a node for the placement.
func (n heardNode) placed() placement.Node {
	out := placement.Node{Name: n.Node.Node}
	for _, x := range n.Accounts {
		switch {
		case x.Lease:
			out.Holds = append(out.Holds, x.Account)
		case x.Ready:
			out.Ready = append(out.Ready, x.Account)
		}
	}
	return out
}

// Wishes returns the accounts of own that other runners should lead. held maps each account
// that own leads to the time when own began to lead it.
func (p *Peers) Wishes(own placement.Node, held map[string]time.Time, now time.Time) (all []Wish) {
	placed := p.place(own, "", now)
	for account, since := range held {
		to := placed[account]
		if to == "" || to == own.Name {
			continue
		}
		n, living := p.runner(to, now)
		all = append(all, Wish{
			account: account, to: to, pinned: p.assignedTo(account, now) == to, held: since, firstHeard: n.first,
			ready: living && slices.Contains(n.placed().Ready, account),
		})
	}
	return all
}

// Longest returns the other live runner with the newest row of an account, and the number of
// this row. It returns "" if no other runner has rows.
func (p *Peers) Longest(account, self string, now time.Time) (name string, row int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for other, n := range p.heard {
		if other == self || !n.lives(now) {
			continue
		}
		for _, x := range n.Accounts {
			if x.Account == account && x.Head > row {
				name, row = other, x.Head
			}
		}
	}
	return name, row
}

// echo tracks whether this runner receives its own heartbeats. A runner that receives its own
// heartbeats also receives the heartbeats of the other runners.
type echo struct {
	since time.Time // arrival of the first heartbeat; reset by a gap or a new connection
	last  time.Time // arrival of the newest heartbeat
}

// NoteSelf records the arrival of this runner's own heartbeat, if it arrived now and was
// sent after the current connection was established, at the time connected.
func (p *Peers) NoteSelf(self string, connected, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	own, known := p.heard[self]
	if !known || !own.last.Equal(now) || own.SaidAt.Before(connected) {
		return
	}
	if p.echo.since.Before(connected) || now.Sub(p.echo.last) >= LateAfter {
		p.echo.since = now
	}
	p.echo.last = now
}

// HeardSince returns the time from which this runner has heard all runners without a gap
// over the current connection. It returns the zero time during a gap.
func (p *Peers) HeardSince(connected, now time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.echo.since.Before(connected) || now.Sub(p.echo.last) >= LateAfter {
		return time.Time{}
	}
	return p.echo.since
}

// Ready reports whether another live standby could lead the account.
func (p *Peers) Ready(account, self string, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, n := range p.heard {
		if name == self || !n.lives(now) {
			continue
		}
		for _, x := range n.Accounts {
			if x.Account == account && x.Ready && !x.Lease {
				return true
			}
		}
	}
	return false
}

// Followers returns the number of live standbys of an account, including self, and at least 1.
func (p *Peers) Followers(account, self string, now time.Time) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	others := 0 // equals the number of standbys, because either self or one of the others leads
	for name, n := range p.heard {
		if name != self && n.lives(now) && slices.ContainsFunc(n.Accounts, func(x NodeAccount) bool { return x.Account == account && !x.Borrows }) {
			others++
		}
	}
	return max(others, 1)
}
