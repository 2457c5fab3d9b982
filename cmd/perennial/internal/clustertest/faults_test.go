//go:build check

// Each fault happens under load, and is repaired before it returns.

package clustertest

import (
	"context"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"perennial/queue"
)

type fault struct {
	name    string
	servers bool // affects the NATS servers only
	do      func(r *rig, random *rand.Rand)
}

var faults = []fault{
	{"kill the holder", false, func(r *rig, _ *rand.Rand) {
		holder := r.holder()
		holder.kill()
		r.lasts(12 * time.Second) // longer than the lease
		holder.start()
	}},
	{"kill the holder and start it at once", false, func(r *rig, _ *rand.Rand) {
		holder := r.holder()
		holder.kill()
		holder.start()
	}},
	{"kill a standby", false, func(r *rig, _ *rand.Rand) {
		standby := r.standby()
		standby.kill()
		r.lasts(3 * time.Second)
		standby.start()
	}},
	{"kill a NATS node", true, func(r *rig, random *rand.Rand) { r.without(4*time.Second, random.IntN(servers)) }},
	{"kill the leader of the events stream", true, func(r *rig, _ *rand.Rand) { r.without(4*time.Second, r.leader()) }},
	{"kill two NATS nodes", true, func(r *rig, random *rand.Rand) {
		stays := random.IntN(servers)
		r.without(6*time.Second, (stays+1)%servers, (stays+2)%servers)
	}},
	{"kill all NATS nodes", true, func(r *rig, _ *rand.Rand) { r.without(4*time.Second, 0, 1, 2) }},
	{"cut the power of a NATS node", true, func(r *rig, random *rand.Rand) { r.cutPower(random, random.IntN(servers)) }},
	{"cut the power of the leader of the events stream", true, func(r *rig, random *rand.Rand) { r.cutPower(random, r.leader()) }},
	{"end the holder in good order", false, func(r *rig, _ *rand.Rand) {
		holder := r.holder()
		if code := holder.terminate(); code != 0 {
			r.t.Errorf("runner %d: exit %d", holder.n, code)
		}
		holder.start()
	}},
	{"fill the holder's disk", false, func(r *rig, _ *rand.Rand) { r.withDisk(r.holder(), "full", 12*time.Second) }},
	{"fill a standby's disk", false, func(r *rig, _ *rand.Rand) { r.withDisk(r.standby(), "full", 6*time.Second) }},
	{"break the holder's disk", false, func(r *rig, _ *rand.Rand) { r.withDisk(r.holder(), "write sync", 12*time.Second) }},
	{"freeze the holder", false, func(r *rig, random *rand.Rand) {
		holder := r.holder()
		holder.signal(syscall.SIGSTOP)
		r.lasts(15*time.Second + time.Duration(random.IntN(5000))*time.Millisecond)
		holder.signal(syscall.SIGCONT)
	}},
	{"cut a runner off from NATS", false, func(r *rig, random *rand.Rand) {
		r.doorsOf(r.runners[random.IntN(len(r.runners))], cut, 15*time.Second)
	}},
	{"cut the holder off from NATS", false, func(r *rig, _ *rand.Rand) { r.doorsOf(r.holder(), cut, 15*time.Second) }},
	{"cut the holder off from the provider", false, func(r *rig, _ *rand.Rand) {
		r.provider.bar(r.holder().cmd.Process.Pid)
		r.lasts(6 * time.Second)
		r.provider.bar(0)
	}},
	{"cut a NATS node off from the others", true, func(r *rig, random *rand.Rand) {
		i := random.IntN(servers)
		r.nats.isolate(i, cut)
		r.lasts(10 * time.Second)
		r.nats.isolate(i, open)
	}},
	{"cut the leader of the events stream off from the others", true, func(r *rig, _ *rand.Rand) {
		i := r.leader()
		r.nats.isolate(i, cut)
		r.lasts(10 * time.Second)
		r.nats.isolate(i, open)
	}},
	{"drop the answers to the runners", true, func(r *rig, _ *rand.Rand) {
		for _, one := range r.runners {
			one.set(deaf)
		}
		r.lasts(4 * time.Second)
		for _, one := range r.runners {
			one.set(open) // closes the connections: the dropped answers never arrive
		}
	}},
	{"restart all", false, func(r *rig, _ *rand.Rand) {
		for i := range servers {
			r.nats.kill(i)
		}
		for _, one := range r.runners {
			one.kill()
		}
		for i := range servers {
			r.nats.start(i)
		}
		for _, one := range r.runners {
			one.start()
		}
	}},
	{"set the clock of the holder", false, func(r *rig, random *rand.Rand) {
		holder := r.holder()
		holder.kill()
		holder.setClock(random)
	}},
	{"set the clock of the holder, and another runner takes over", false, func(r *rig, random *rand.Rand) {
		holder := r.holder()
		holder.kill()
		r.lasts(12 * time.Second) // longer than the lease
		holder.setClock(random)
	}},
	{"delete the data of a standby", false, func(r *rig, _ *rand.Rand) { r.loseData(r.standby()) }},
	{"delete the data of the holder", false, func(r *rig, _ *rand.Rand) { r.loseData(r.holder()) }},
}

func (r *rig) lasts(d time.Duration) {
	select {
	case <-r.ctx.Done():
	case <-time.After(d):
	}
}

// without kills servers, and restarts them after d.
func (r *rig) without(d time.Duration, nodes ...int) {
	r.t.Helper()
	for _, i := range nodes {
		r.nats.kill(i)
	}
	r.lasts(d)
	for _, i := range nodes {
		r.nats.start(i)
	}
}

func (o *runner) set(m mode) {
	for _, d := range o.doors {
		d.set(m)
	}
}

func (r *rig) doorsOf(one *runner, m mode, d time.Duration) {
	one.set(m)
	r.lasts(d)
	one.set(open)
}

// withDisk makes the writes of a runner's ledger fail for d.
func (r *rig) withDisk(one *runner, calls string, d time.Duration) {
	r.t.Helper()
	if err := one.disk.Fail(calls); err != nil {
		r.t.Fatal(err)
	}
	r.lasts(d)
	if err := one.disk.Heal(); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) loseData(one *runner) {
	r.t.Helper()
	one.kill()
	if err := os.RemoveAll(one.data()); err != nil {
		r.t.Fatal(err)
	}
	one.start()
}

// leader returns the server that leads the events stream.
func (r *rig) leader() (node int) {
	r.t.Helper()
	if !await(r.ctx, patience, func() bool {
		ctx, cancel := context.WithTimeout(r.ctx, 2*time.Second)
		defer cancel()
		stream, err := r.js.Stream(ctx, queue.EventsStream("main"))
		if err != nil || stream.CachedInfo().Cluster == nil {
			return false
		}
		name := stream.CachedInfo().Cluster.Leader
		node = strings.Index("012", strings.TrimPrefix(name, "n"))
		return len(name) == 2 && node >= 0
	}) {
		r.t.Fatalf("the events stream has no leader; logs in %s", r.dir)
	}
	return node
}

// drawn draws the faults of n rounds. No fault repeats before each has come once.
func drawn(t *testing.T, random *rand.Rand, n int, may func(fault) bool) (out []fault) {
	t.Helper()
	var all []fault
	for _, f := range faults {
		if may(f) && strings.Contains(f.name, *faultText) {
			all = append(all, f)
		}
	}
	if len(all) == 0 {
		t.Fatalf("no fault of this test contains %q", *faultText)
	}
	for len(out) < n {
		for _, i := range random.Perm(len(all)) {
			out = append(out, all[i])
		}
	}
	return out[:n]
}
