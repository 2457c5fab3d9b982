package planted

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// simulated is how many seeds the simulation runs for each bug of the audit.
var simulated = flag.Int("simulated", 0, "drive this many seeds of jobs.TestSimulation over each bug of the audit, and write testdata/planted/README.md")

const (
	beginSimulated = "<!-- simulated: begin -->\n"
	endSimulated   = "<!-- simulated: end -->\n"
)

// audited returns the bugs of the audit: its own list, and the bugs of sweeps and fleets whose trap
// the audit found.
func audited() []bug {
	return slices.Concat(auditBugs, slices.DeleteFunc(slices.Concat(sweepBugs, fleetBugs), func(b bug) bool { return b.trap < firstAudited }))
}

// firstAudited is the first trap that the audit found.
const firstAudited = 45

var failedSeed = regexp.MustCompile(`(?m)^\s+simulation_test\.go:\d+: seed \d+: `)

// The test counts the seeds that fail with each bug of the audit. It accepts any count, because
// each bug has another test that must fail.
func TestWhatTheSimulationAloneNotices(t *testing.T) {
	text := read(t, page)
	for _, b := range audited() {
		if *simulated == 0 && !strings.Contains(text, "\n| "+b.name+" | ") {
			t.Errorf("testdata/planted/README.md does not say what the simulation makes of %q: go test ./testdata/planted -run Simulation -simulated 500", b.name)
		}
	}
	if *simulated == 0 {
		return
	}
	var table strings.Builder
	fmt.Fprintf(&table, "| planted bug | seeds of %d that fail |\n|---|---|\n", *simulated)
	all := true // -run with a part of the bugs leaves the page unchanged
	for _, b := range audited() {
		all = t.Run(b.name, func(t *testing.T) {
			seeds := b.simulate(t)
			fmt.Fprintf(&table, "| %s | %d |\n", b.name, seeds)
			t.Logf("%s: %d", b.name, seeds)
		}) && all
	}
	if rows := strings.Count(table.String(), "\n") - 2; all && rows == len(audited()) {
		fill(t, beginSimulated, endSimulated, table.String())
	}
}

// simulate counts the seeds that fail with the bug.
func (b bug) simulate(t *testing.T) int {
	t.Helper()
	program := filepath.Join(t.TempDir(), "jobs.test")
	build := exec.Command("go", "test", "-c", "-overlay", b.overlay(t), "-vet", "off", "-o", program, "./jobs")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := exec.Command(program, "-test.run", "TestSimulation$", "-test.timeout", "10m", "-sim.seeds", strconv.Itoa(*simulated), "-sim.kept=false")
	run.Dir, run.Env = filepath.Join(root, "jobs"), append(os.Environ(), "GOGC=400")
	out, err := run.CombinedOutput()
	seeds := len(failedSeed.FindAll(out, -1))
	if err != nil && seeds == 0 {
		t.Fatalf("%v\n%s", err, out)
	}
	return seeds
}
