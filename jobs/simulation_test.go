package jobs

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"perennial/ledger/testrun"

	"golang.org/x/sync/errgroup"
)

var (
	simSeeds = flag.Int("sim.seeds", defaultSeeds(), "how many seeds the simulation drives")
	simFirst = flag.Uint64("sim.first", 1, "its first seed")
	simKept  = flag.Bool("sim.kept", true, "drive the seeds that once failed, too")
	simTrace = flag.Bool("sim.trace", false, "print what happened in each seed")
)

func defaultSeeds() int {
	if testrun.Check {
		return 3_000
	}
	return 200
}

// keptSeeds is the file of the seeds that once failed. They always run.
const keptSeeds = "../testdata/simulation/seeds.txt"

// TestSimulation drives the runner's own steps, one at a time and in an order that only the
// seed decides. The queue, clock and wire are simulated; the ledger file and the sandbox's
// handler are real. The runner may crash at any effect. After each step the test checks what
// must never happen. Finally the faults stop, and everything must finish.
func TestSimulation(t *testing.T) {
	var seeds []uint64
	if *simKept {
		seeds = kept(t)
	}
	n := *simSeeds - seedsOnMachines() // the rest is for several machines
	for i := range n {
		seeds = append(seeds, *simFirst+uint64(i))
	}
	template, dir := ledgerTemplate(t), simDir(t)
	var workers errgroup.Group
	workers.SetLimit(2 * runtime.NumCPU())
	results := make([]*simulation, len(seeds))
	for i, seed := range seeds {
		workers.Go(func() error {
			s := simulate(t.Context(), template, dir, seed)
			results[i] = &simulation{seed: seed, counts: s.counts, failure: s.failure}
			if s.failure != "" || *simTrace {
				results[i].trace = s.trace // ten thousand of them would be gigabytes
			}
			return nil
		})
	}
	_ = workers.Wait()
	var sum simCounts
	for _, s := range results {
		sum = sum.plus(s.counts)
		if s.failure != "" {
			t.Errorf("seed %d: %s\n%s\nagain with -run 'TestSimulation$' -sim.seeds 1 -sim.first %d -sim.trace; keep it in %s",
				s.seed, s.failure, s.tail(), s.seed, keptSeeds)
		} else if *simTrace {
			t.Logf("seed %d:\n%s", s.seed, strings.Join(s.trace, "\n"))
		}
	}
	t.Logf("%d seeds from %d: %s", len(seeds), *simFirst, sum)
	if n >= 150 {
		sum.reachWaits(t)
	}
	if n >= 1000 && sum.corrections == 0 {
		t.Error("no wrong answer was corrected")
	}
}

// reachWaits checks that the seeds reached each wait of the table that a simulation can reach.
// All these waits ended, because a seed whose operations do not end fails.
func (c simCounts) reachWaits(t *testing.T) {
	t.Helper()
	for _, w := range allWaits() {
		if of := w.Of + " " + w.Reason; w.Test == t.Name() && c.waits[of] == 0 {
			t.Errorf("no %s: the seeds do not come to this wait", of)
		}
	}
}

// Otherwise a failed seed could not be debugged.
func TestTheSameSeedGivesTheSameTrace(t *testing.T) {
	template, dir := ledgerTemplate(t), simDir(t)
	for seed := range uint64(4) {
		one := simulate(t.Context(), template, dir, seed)
		two := simulate(t.Context(), template, dir, seed)
		for i := range max(len(one.trace), len(two.trace)) {
			if i >= len(one.trace) || i >= len(two.trace) || one.trace[i] != two.trace[i] {
				t.Fatalf("seed %d: the traces part at %d:\n%s\n\n%s", seed, i, strings.Join(one.trace[max(0, i-5):min(i+2, len(one.trace))], "\n"),
					strings.Join(two.trace[max(0, i-5):min(i+2, len(two.trace))], "\n"))
			}
		}
	}
}

// simDir returns a directory in memory if there is one. The simulated disk loses nothing, and
// syncs for every seed would take most of the time.
func simDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "perennial-simulation-*") //nolint:usetesting // in memory
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func kept(t *testing.T) (seeds []uint64) {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(keptSeeds))
	check(t, err)
	for line := range strings.Lines(string(text)) {
		word, _, _ := strings.Cut(line, "#")
		if word = strings.TrimSpace(word); word != "" {
			seed, err := strconv.ParseUint(word, 10, 64)
			check(t, err)
			seeds = append(seeds, seed)
		}
	}
	return seeds
}

type simCounts struct {
	commands, posts, served, crashes, faults, reviews, corrections, steps int
	waits                                                                 map[string]int // by what waits, and for what
}

func (c simCounts) plus(o simCounts) simCounts {
	waits := map[string]int{}
	for _, all := range []map[string]int{c.waits, o.waits} {
		for name, n := range all {
			waits[name] += n
		}
	}
	return simCounts{c.commands + o.commands, c.posts + o.posts, c.served + o.served, c.crashes + o.crashes, c.faults + o.faults, c.reviews + o.reviews, c.corrections + o.corrections, c.steps + o.steps, waits}
}

func (c simCounts) String() string {
	return fmt.Sprintf("%d commands, %d POSTs, %d crashes, %d faults, %d reviews, %d corrections, %d steps", c.commands, c.posts, c.crashes, c.faults, c.reviews, c.corrections, c.steps)
}
