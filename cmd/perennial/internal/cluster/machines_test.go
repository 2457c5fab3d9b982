// Many runners and accounts in simulated time. The heartbeats, the choice of accounts and the
// handovers are the program's own code. Leases and NATS are a model.

package cluster

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"perennial/cmd/perennial/internal/placement"
)

const (
	simTick  = 250 * time.Millisecond // of simulated time, and the delay of a message
	simDrain = 500 * time.Millisecond // from the start of a handover to the release of the lease
)

// simLease is the lease of an account.
type simLease struct {
	holder  *simMachine // nil: free
	written time.Time
	free    time.Time // since when it is free
}

type simMachine struct {
	name    string
	alive   bool
	started time.Time
	peers   Peers
	mover   Mover
	held    map[string]time.Time // accounts, since when
	drains  map[string]time.Time // accounts that it releases at a time
	said    time.Time
	changed bool
}

// simFleet is all runners of one configuration.
type simFleet struct {
	now      time.Time
	accounts []string
	machines []*simMachine
	leases   map[string]*simLease
	words    map[string]Node // the bucket of the heartbeats

	renewals, said, moves int
}

func newSimFleet(machines, accounts int) *simFleet {
	f := &simFleet{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), leases: map[string]*simLease{}, words: map[string]Node{}}
	for i := range accounts {
		name := fmt.Sprintf("account-%04d", i)
		f.accounts = append(f.accounts, name)
		f.leases[name] = &simLease{free: f.now}
	}
	for i := range machines {
		f.machines = append(f.machines, &simMachine{name: fmt.Sprintf("node-%02d", i)})
	}
	return f
}

func (f *simFleet) start(m *simMachine) {
	*m = simMachine{name: m.name, alive: true, started: f.now, held: map[string]time.Time{}, drains: map[string]time.Time{}, changed: true}
}

// deal distributes the accounts in turn.
func (f *simFleet) deal() {
	for i, a := range f.accounts {
		m := f.machines[i%len(f.machines)]
		f.leases[a].holder, f.leases[a].written = m, f.now
		m.held[a] = f.now
	}
}

// lose kills a runner, so that its leases expire.
func (f *simFleet) lose(m *simMachine) { m.alive = false }

func (m *simMachine) word(f *simFleet) Node {
	n := Node{Node: m.name, StartedAt: m.started, SaidAt: f.now, Accounts: make([]NodeAccount, 0, len(f.accounts))}
	for _, a := range f.accounts {
		_, held := m.held[a]
		n.Accounts = append(n.Accounts, NodeAccount{Account: a, Lease: held, Ready: !held})
	}
	return n
}

func (m *simMachine) standing(f *simFleet) placement.Node {
	out := placement.Node{Name: m.name}
	for _, a := range f.accounts {
		if _, held := m.held[a]; held {
			out.Holds = append(out.Holds, a)
		} else {
			out.Ready = append(out.Ready, a)
		}
	}
	return out
}

func (f *simFleet) step() {
	f.now = f.now.Add(simTick)
	f.runOut()
	var said []Node
	for _, n := range f.words {
		said = append(said, n)
	}
	for _, m := range f.machines {
		if !m.alive {
			continue
		}
		m.peers.Note(said, f.now)
		f.takeFree(m)
		f.handOver(m)
	}
	for _, m := range f.machines { // the others hear it with the next tick
		if m.alive && (m.changed || f.now.Sub(m.said) >= Heartbeat) {
			f.words[m.name], m.said, m.changed = m.word(f), f.now, false
			f.said++
		}
	}
}

// runOut renews leases, and frees the expired ones.
func (f *simFleet) runOut() {
	for _, l := range f.leases {
		switch {
		case l.holder == nil:
		case l.holder.alive && f.now.Sub(l.written) >= LeaseTTL/3:
			l.written = f.now
			f.renewals++
		case f.now.Sub(l.written) >= LeaseTTL:
			l.holder, l.free = nil, f.now
		}
	}
}

// takeFree makes a runner take accounts as lease.contender does. It leaves an account that another
// runner should have for a fifth of the lease.
func (f *simFleet) takeFree(m *simMachine) {
	for _, a := range f.accounts {
		l := f.leases[a]
		if l.holder != nil || f.now.Sub(l.free) < LeaseTTL/5 && m.peers.Leaves(m.standing(f), a, f.now) {
			continue
		}
		l.holder, l.written = m, f.now
		m.held[a], m.changed = f.now, true
		f.moves++
	}
}

// handOver does what Host.handOvers does, once a second.
func (f *simFleet) handOver(m *simMachine) {
	for a, at := range m.drains {
		if f.now.Before(at) {
			continue
		}
		delete(m.drains, a)
		delete(m.held, a)
		f.leases[a].holder, f.leases[a].free, m.changed = nil, f.now, true
	}
	if f.now.Sub(m.started)%LookEvery != 0 {
		return
	}
	if x := m.mover.Now; x != nil && m.peers.Holder(x.Account, m.name, f.now) != "" {
		m.mover.End(true, f.now)
	}
	if x := m.mover.Choose(m.peers.Wishes(m.standing(f), m.held, f.now), f.now); x != nil {
		m.drains[x.Account] = f.now.Add(simDrain)
	}
}

// shares returns the sorted numbers of accounts that the living runners hold, and whether all
// accounts are held.
func (f *simFleet) shares() (shares []int, all bool) {
	sum := 0
	for _, m := range f.machines {
		if m.alive {
			shares = append(shares, len(m.held))
			sum += len(m.held)
		}
	}
	slices.Sort(shares)
	return shares, sum == len(f.accounts)
}

func (f *simFleet) even() bool {
	shares, all := f.shares()
	return all && shares[len(shares)-1]-shares[0] <= 1
}

// until steps until done, and returns the simulated time that passed.
func (f *simFleet) until(t testing.TB, most time.Duration, what string, done func() bool) time.Duration {
	t.Helper()
	began := f.now
	for !done() {
		if f.now.Sub(began) >= most {
			shares, _ := f.shares()
			t.Fatalf("%s: not within %s; shares %d", what, most, shares)
		}
		f.step()
	}
	return f.now.Sub(began)
}

// simResult is the cost of a fleet's life in simulated time.
type simResult struct {
	again, even, back    time.Duration // after a loss: all held; shares even; even with the lost runner back
	lostMoves, backMoves int
	renewals, words      float64 // a second, in a quiet minute
}

// live starts a fleet, loses a runner, and starts it again.
func (f *simFleet) live(t testing.TB) (out simResult) {
	t.Helper()
	for _, m := range f.machines {
		f.start(m)
	}
	if len(f.machines) > 10 {
		f.deal() // computing a placement for each account and runner would take minutes
	}
	f.until(t, time.Hour, "start", f.even)
	f.renewals, f.said, f.moves = 0, 0, 0
	for range int(time.Minute / simTick) {
		f.step()
	}
	if f.moves > 0 {
		t.Errorf("%d accounts moved while nothing happened", f.moves)
	}
	out.renewals, out.words = float64(f.renewals)/60, float64(f.said)/60
	f.lose(f.machines[0])
	lost := len(f.machines[0].held)
	out.again = f.until(t, time.Minute, "loss", func() bool { _, all := f.shares(); return all })
	out.even = out.again + f.until(t, time.Hour, "evening out", f.even)
	out.lostMoves = f.moves
	if f.moves > lost+len(f.machines) {
		t.Errorf("%d accounts moved behind the loss of a runner with %d", f.moves, lost)
	}
	f.moves = 0
	f.start(f.machines[0])
	out.back = f.until(t, time.Hour, "return", f.even)
	out.backMoves = f.moves
	return out
}

// The fleets are a group of three, as docs/scale.md recommends, and one with more runners. No
// account is without a leader for more than 15 s.
func TestAFleetStaysEvenThroughALoss(t *testing.T) {
	for _, x := range []struct{ machines, accounts int }{{3, 10}, {3, 63}, {7, 40}} {
		f := newSimFleet(x.machines, x.accounts)
		got := f.live(t)
		if got.again > 15*time.Second {
			t.Errorf("%d accounts on %d machines: %s without a runner", x.accounts, x.machines, got.again)
		}
		if share := (x.accounts + x.machines - 1) / x.machines; got.backMoves > share+x.machines {
			t.Errorf("%d accounts on %d machines: %d moved for a share of %d", x.accounts, x.machines, got.backMoves, share)
		}
		t.Logf("%d accounts on %d machines: %+v", x.accounts, x.machines, got)
	}
}

// BenchmarkMachines simulates the 1,000 accounts on 50 machines of docs/scale.md, in one
// configuration and in groups of three. Its figures are simulated seconds.
func BenchmarkMachines(b *testing.B) {
	for _, x := range []struct{ machines, accounts int }{{3, 63}, {50, 1000}} {
		b.Run(fmt.Sprintf("%d-on-%d", x.accounts, x.machines), func(b *testing.B) {
			for range b.N {
				got := newSimFleet(x.machines, x.accounts).live(b)
				b.ReportMetric(got.again.Seconds(), "sim-s/all-run-again")
				b.ReportMetric(got.even.Seconds(), "sim-s/even-again")
				b.ReportMetric(got.back.Seconds(), "sim-s/even-with-it-back")
				b.ReportMetric(float64(got.lostMoves), "moves/loss")
				b.ReportMetric(float64(got.backMoves), "moves/return")
				b.ReportMetric(got.renewals, "renewals/sim-s")
				b.ReportMetric(got.words, "words/sim-s")
			}
		})
	}
}
