// What a runner knows of the others, and which should lead which account.

package daemon

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"perennial/cmd/perennial/internal/placement"
	"perennial/ledger/sleep"
	"perennial/queue/nodes"
)

const (
	// lateAfter is the maximum age of a runner's heartbeat for it to be given an
	// account: one may be a little late.
	lateAfter = nodeEvery + 2*time.Second
	// fewRows is the maximum lag of a standby that is given an account.
	fewRows = 1000
	// watchAgain is how soon the buckets are read again after a failure, or if they do
	// not exist.
	watchAgain = time.Second
)

// peers holds the last states of the configuration's runners.
type peers struct {
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

// followPeers receives the other runners' states until ctx ends.
func (h *Host) followPeers(ctx context.Context) {
	var both sync.WaitGroup
	again := func(watch func(context.Context) error) {
		for ctx.Err() == nil {
			limited, cancel := context.WithTimeout(ctx, nodes.NodeLife) // finds a recreated bucket
			_ = watch(limited)                                          // a check reports that NATS is away
			ended := limited.Err() != nil
			cancel()
			if !ended {
				_ = sleep.For(ctx, watchAgain)
			}
		}
	}
	both.Go(func() {
		again(func(ctx context.Context) error {
			return nodes.Watch(ctx, h.Queue.JetStream(), func(said [][]byte) {
				if all, err := nodesSaid(said); err == nil {
					if h.name.note(all, h.holder) {
						h.log.WithField("node", h.name.get()).Error("another runner on a machine of the same name has the same data_dir: give the machines different host names. This runner calls itself by a longer name now")
					}
					now := time.Now()
					if why := h.peers.note(all, now); why != "" {
						h.log.Warn(why + ": " + OtherSettingsAdvice)
					}
					h.peers.noteSelf(h.name.get(), h.reconnected(), now)
				}
			})
		})
	})
	both.Go(func() {
		again(func(ctx context.Context) error { return nodes.WatchPins(ctx, h.Queue.JetStream(), h.peers.setPins) })
	})
	both.Wait()
}

// note stores the last states of all runners. It returns what is new in [OtherSettings].
func (p *peers) note(all []Node, now time.Time) (other string) {
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

func (p *peers) setPins(pins map[string]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pins = pins
}

// given returns the nodes by account that operators have chosen, and first the commands
// that borrow accounts. The caller holds peers.mu.
func (p *peers) given(now time.Time) map[string]string {
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
func (p *peers) givenTo(account string, now time.Time) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.given(now)[account]
}

// runner returns the last state of a live runner.
func (p *peers) runner(node string, now time.Time) (n heardNode, living bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, known := p.heard[node]
	return n, known && n.lives(now)
}

// lives reports whether a runner may be given accounts.
func (n heardNode) lives(now time.Time) bool { return !n.Stopping && now.Sub(n.last) < lateAfter }

// holder returns another live runner that holds an account's lease, "" for none.
func (p *peers) holder(account, self string, now time.Time) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, n := range p.heard {
		if name != self && n.lives(now) && slices.ContainsFunc(n.Accounts, func(x NodeAccount) bool { return x.Account == account && x.Lease }) {
			return name
		}
	}
	return ""
}

// leaves reports whether another runner than own should lead a free account. Its last
// leader has returned or lost it, and does not count as its leader.
func (p *peers) leaves(own placement.Node, account string, now time.Time) bool {
	to := p.place(own, account, now)[account]
	return to != "" && to != own.Name
}

// place returns the placement of all accounts on this and the other live runners. free
// is an account that counts as held by none; "" for none.
func (p *peers) place(own placement.Node, free string, now time.Time) map[string]string {
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

// standing returns this runner's own state for the placement.
func (h *Host) standing() placement.Node {
	out := placement.Node{Name: h.name.get()}
	for _, a := range h.Accounts {
		switch {
		case a.holds():
			if !(prover{a}).leaves(time.Now()) {
				out.Holds = append(out.Holds, a.Name)
			}
		case a.couldRun():
			out.Ready = append(out.Ready, a.Name)
		}
	}
	return out
}

// runs reports whether this runner leads the account, and it works.
func (a *account) runs() bool {
	return (a.holds() || a.host.Embedded != nil) && a.role() == roleActive && a.notReady() == ""
}

// couldRun reports whether a standby could lead the account at once.
func (a *account) couldRun() bool {
	return a.snapshot().state == waitsForLease && a.standby.close(fewRows) && a.proof.isGood() && a.notReady() == ""
}
