// What a runner knows of the others.

package cluster

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"perennial/cmd/perennial/internal/placement"
)

// LateAfter is the maximum age of a runner's heartbeat for it to be given an account: one
// may be a little late.
const LateAfter = Heartbeat + 2*time.Second

// Peers holds the last states of the configuration's runners.
type Peers struct {
	mu    sync.Mutex
	heard map[string]heardNode // by name
	pins  map[string]string    // node by account
	echo  echo
	other string // what was logged about runners with other settings
}

// heardNode is a runner's last state. Times are this machine's, because clocks may
// differ.
type heardNode struct {
	Node
	first time.Time // when this start of it was first heard
	last  time.Time // when this state came
}

// Note stores the last states of all runners. It returns what is new in [OtherSettings].
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

// SetPins stores the nodes by account that operators have chosen.
func (p *Peers) SetPins(pins map[string]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pins = pins
}

// given returns the nodes by account that operators have chosen, and first the commands
// that borrow accounts. The caller holds peers.mu.
func (p *Peers) given(now time.Time) map[string]string {
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

// givenTo returns the node that an account was given to, "" for none.
func (p *Peers) givenTo(account string, now time.Time) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.given(now)[account]
}

// runner returns the last state of a live runner.
func (p *Peers) runner(node string, now time.Time) (n heardNode, living bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, known := p.heard[node]
	return n, known && n.lives(now)
}

// lives reports whether a runner may be given accounts.
func (n heardNode) lives(now time.Time) bool { return !n.Stopping && now.Sub(n.last) < LateAfter }

// Holder returns another live runner that holds an account's lease, "" for none.
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

// Leaves reports whether another runner than own should lead a free account. Its last
// leader has returned or lost it, and does not count as its leader.
func (p *Peers) Leaves(own placement.Node, account string, now time.Time) bool {
	to := p.place(own, account, now)[account]
	return to != "" && to != own.Name
}

// place returns the placement of all accounts on this and the other live runners. free
// is an account that counts as held by none; "" for none.
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
	return placement.Of(nodes, accounts, p.given(now))
}

// placed converts a runner's state for the placement.
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

// Wishes returns the accounts of own that other runners should lead. held maps the held
// accounts to their start.
func (p *Peers) Wishes(own placement.Node, held map[string]time.Time, now time.Time) (all []Wish) {
	placed := p.place(own, "", now)
	for account, since := range held {
		to := placed[account]
		if to == "" || to == own.Name {
			continue
		}
		n, living := p.runner(to, now)
		all = append(all, Wish{
			account: account, to: to, pinned: p.givenTo(account, now) == to, held: since, came: n.first,
			ready: living && slices.Contains(n.placed().Ready, account),
		})
	}
	return all
}

// Longest returns the other live runner with the most rows of an account; "" for none.
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

// echo tracks this runner's own messages coming back. While they do, the other runners'
// messages arrive too.
type echo struct {
	since time.Time // when the first came; reset by a gap or a new connection
	last  time.Time // when the newest came
}

// NoteSelf notes this runner's own message, if a new one came over the connection.
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

// HeardSince returns since when this runner hears all runners over a connection without
// a gap; zero if it does not.
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

// Followers returns the number of live standbys of an account, including self; at least
// 1.
func (p *Peers) Followers(account, self string, now time.Time) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	others := 0 // equals the standbys: self is one if another runner leads
	for name, n := range p.heard {
		if name != self && n.lives(now) && slices.ContainsFunc(n.Accounts, func(x NodeAccount) bool { return x.Account == account && !x.Borrows }) {
			others++
		}
	}
	return max(others, 1)
}
