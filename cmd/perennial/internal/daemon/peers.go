// What a runner knows of the others, and which of them should hold which account.

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
	// lateAfter is how old a runner's word may be for it to be given an account: one word
	// may be missing a little.
	lateAfter = nodeEvery + 2*time.Second
	// fewRows is how far behind a standby may be that is given an account.
	fewRows = 1000
	// watchAgain is how soon the buckets are read again where they could not be, or are
	// not there.
	watchAgain = time.Second
)

// peers are what the runners of the configuration have said, as this one heard it.
type peers struct {
	mu    sync.Mutex
	heard map[string]heardNode // by name
	pins  map[string]string    // node by account
	echo  echo
	other string // what the log has said of runners with other settings
}

// heardNode is a runner's last word. Times are of this machine: clocks may differ.
type heardNode struct {
	Node
	first time.Time // when this start of it was first heard of
	last  time.Time // when this word came
}

// followPeers hears the other runners until ctx ends.
func (h *Host) followPeers(ctx context.Context) {
	var both sync.WaitGroup
	again := func(watch func(context.Context) error) {
		for ctx.Err() == nil {
			limited, cancel := context.WithTimeout(ctx, nodes.NodeLife) // a bucket made again is found
			_ = watch(limited)                                          // that NATS is away is the matter of a check
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

// note keeps what all runners said last. It returns what is new in [OtherSettings].
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

// given are the nodes to which a person has given an account, and before those the
// commands that borrow one. It needs peers.mu.
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

// givenTo is the node that an account was given to, "" for none.
func (p *peers) givenTo(account string, now time.Time) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.given(now)[account]
}

// runner is the last word of a living runner.
func (p *peers) runner(node string, now time.Time) (n heardNode, living bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, known := p.heard[node]
	return n, known && n.lives(now)
}

// lives reports whether a runner may be given accounts.
func (n heardNode) lives(now time.Time) bool { return !n.Stopping && now.Sub(n.last) < lateAfter }

// holder is another living runner that says it has an account's lease, "" where none does.
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

// leaves reports whether an account that is free should be another runner's than own.
// The runner that held it has given it back or is lost: it is not the one.
func (p *peers) leaves(own placement.Node, account string, now time.Time) bool {
	to := p.place(own, account, now)[account]
	return to != "" && to != own.Name
}

// place is the placement of all accounts on this runner and the other living ones. free is
// an account that none of them holds, whatever they say; "" for none.
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

// placed is what a runner said, as the placement takes it.
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

// standing is this runner itself, as the placement takes it.
func (h *Host) standing() placement.Node {
	out := placement.Node{Name: h.name.get()}
	for _, a := range h.Accounts {
		switch {
		case a.holds():
			if !a.leaves(time.Now()) {
				out.Holds = append(out.Holds, a.Name)
			}
		case a.couldRun():
			out.Ready = append(out.Ready, a.Name)
		}
	}
	return out
}

// couldRun says of a standby that it could run the account at once.
func (a *account) couldRun() bool {
	return a.snapshot().state == waitsForLease && a.standby.close(fewRows) && a.proof.isGood() && a.notReady() == ""
}
