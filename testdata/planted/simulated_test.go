package planted

import (
	"flag"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// simulated is how many seeds the simulation drives over each bug of the audit.
var simulated = flag.Int("simulated", 0, "drive this many seeds of jobs.TestSimulation over each bug of the audit, and write docs/reliability.md")

const (
	beginSimulated = "<!-- simulated: begin -->\n"
	endSimulated   = "<!-- simulated: end -->\n"
)

var failedSeed = regexp.MustCompile(`(?m)^\s+simulation_test\.go:\d+: seed \d+: `)

// TestWhatTheSimulationAloneNotices counts the seeds that fail over each bug of
// the audit. It decides nothing: for each bug there is a test that has to fail.
func TestWhatTheSimulationAloneNotices(t *testing.T) {
	text := read(t, page)
	for _, b := range auditBugs {
		if !strings.Contains(text, "| "+b.name+" | ") {
			t.Errorf("docs/reliability.md does not say what the simulation makes of %q: go test ./testdata/planted -run Simulation -simulated 500", b.name)
		}
	}
	if *simulated == 0 {
		return
	}
	program := filepath.Join(t.TempDir(), "jobs.test")
	var table strings.Builder
	fmt.Fprintf(&table, "| planted bug | seeds of %d that fail |\n|---|---|\n", *simulated)
	for _, b := range auditBugs {
		build := exec.Command("go", "test", "-c", "-overlay", b.overlay(t), "-vet", "off", "-o", program, "./jobs")
		build.Dir = root
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", b.name, err, out)
		}
		run := exec.Command(program, "-test.run", "TestSimulation$", "-test.timeout", "10m", "-sim.seeds", strconv.Itoa(*simulated), "-sim.kept=false")
		run.Dir = filepath.Join(root, "jobs")
		out, err := run.CombinedOutput()
		seeds := len(failedSeed.FindAll(out, -1))
		if err != nil && seeds == 0 {
			t.Fatalf("%s: %v\n%s", b.name, err, out)
		}
		fmt.Fprintf(&table, "| %s | %d |\n", b.name, seeds)
		t.Logf("%s: %d", b.name, seeds)
	}
	fill(t, beginSimulated, endSimulated, table.String())
}
