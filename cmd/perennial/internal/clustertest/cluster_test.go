//go:build check

// The tests: rounds of faults with one and with three runners, and two kinds of failover.

package clustertest

import (
	"fmt"
	"syscall"
	"testing"
	"time"
)

// One runner on three servers loses and repeats nothing, whatever happens to the servers. The test
// plays a quarter of the rounds.
func TestOneRunnerOutlivesFaultsOfTheServers(t *testing.T) {
	t.Parallel()
	play(t, 1, *rounds/4, func(f fault) bool { return f.servers })
}

// Three runners lose and repeat nothing, and their ledgers are equal. The test plays the other
// rounds on two clusters in parallel, because most of a round is waiting.
func TestThreeRunnersOutliveEveryFault(t *testing.T) {
	t.Parallel()
	n := *rounds - *rounds/4
	for half := range 2 {
		t.Run(fmt.Sprint("cluster ", half+1), func(t *testing.T) {
			t.Parallel()
			play(t, 3, (n+half)/2, func(fault) bool { return true })
		})
	}
}

// play plays the rounds of one test.
func play(t *testing.T, runners, n int, may func(fault) bool) {
	t.Helper()
	random := seeded(t, "")
	n = max(n, 1)
	r := newRig(t, runners)
	for i, f := range drawn(t, random, n, may) {
		began := time.Now()
		r.load.begin()
		r.underLoad()
		f.do(r, random)
		healed := time.Now()
		r.load.end()
		holder := r.holder()
		r.settle()
		settled := time.Now()
		r.check()
		t.Logf("round %d: %s: %s, all ended %s later, checked in %s%s", i+1, f.name, healed.Sub(began).Round(time.Millisecond),
			settled.Sub(healed).Round(time.Millisecond), time.Since(settled).Round(time.Millisecond), r.versionsText(holder))
	}
	r.finish()
}

// underLoad waits until some commands of the load have ended.
func (r *rig) underLoad() {
	r.t.Helper()
	before := len(r.stream.finished)
	if !await(r.ctx, patience, func() bool {
		_, wrong := r.stream.read(r.ctx, r.js)
		return wrong != nil || len(r.stream.finished) >= before+10
	}) {
		r.t.Fatalf("no command ends under load; logs in %s", r.dir)
	}
}

// handOver ends the leader and waits for another runner's first POST to the provider. It returns
// the time between the two.
func handOver(t *testing.T, end func(*runner)) time.Duration {
	t.Helper()
	const limit = 60 * time.Second
	r := newRig(t, 3)
	r.load.begin()
	r.underLoad()
	holder := r.holder()
	others := r.pids()
	for i, pid := range others {
		if pid == holder.cmd.Process.Pid {
			others = append(others[:i], others[i+1:]...)
			break
		}
	}
	began := time.Now()
	end(holder)
	ended := time.Now()
	before := r.versionsText(holder)
	var first time.Time
	if !await(r.ctx, limit, func() (found bool) {
		first, _, found = r.provider.postOf(others, began)
		return found
	}) {
		t.Fatalf("no other runner works %s after the end of the holder; logs in %s", limit, r.dir)
	}
	t.Logf("the holder ended in %s; the first POST of the new one came %s after the signal%s", ended.Sub(began).Round(time.Millisecond), first.Sub(began).Round(time.Millisecond), before)
	holder.start()
	r.load.end()
	r.settle()
	r.check()
	r.finish()
	return first.Sub(ended)
}

// After a kill of the leader another runner works, within a minute on a busy machine.
func TestTakeOverAfterKill(t *testing.T) {
	t.Parallel()
	handOver(t, (*runner).kill)
}

// SIGTERM releases the lease: the next runner does not wait the 10 s until it expires.
func TestSIGTERMHandsOver(t *testing.T) {
	t.Parallel()
	after := handOver(t, func(holder *runner) {
		holder.signal(syscall.SIGTERM)
		if !holder.ended(patience) || holder.cmd.ProcessState.ExitCode() != 0 {
			t.Errorf("the holder ended with %v", holder.cmd.ProcessState)
		}
	})
	if after > 8*time.Second {
		t.Errorf("the next runner worked %s after the holder's end: it waited for the lease", after)
	}
}
