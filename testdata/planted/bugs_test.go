package planted

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
)

// traps is how many traps of the customer API there are. The tests that name
// one, TestTrap07…, have to fail when its guard is removed.
const traps = 60

// A bug is a change of one place that a quick reader of the API's document would
// write, and where it must be noticed.
type bug struct {
	trap     int // 0: of none
	name     string
	in       string // the declaration that is changed: package.Name, or package.Type.Method
	file     string // in place of in where it is a file as a whole, such as a migration
	old, new string
	run      string // -run of go test; of a trap: its tests
}

// bugs is everything that is planted.
var bugs = slices.Concat(upstreamBugs, decisionBugs, runnerBugs, ledgerBugs, sweepBugs, auditBugs, fleetBugs, queueBugs, boundBugs, fileBugs, journalBugs, webhookBugs, webBugs)

// tests selects the tests that have to notice: TestTrap07… and TestTrap06And07….
func (b bug) tests() string {
	return cmp.Or(b.run, fmt.Sprintf(`Trap(\d\dAnd)?%02d`, b.trap))
}

// number is the trap as the page shows it.
func (b bug) number() string {
	if b.trap == 0 {
		return ""
	}
	return fmt.Sprintf("%02d", b.trap)
}

// order is by trap; those of none come last.
func (b bug) order() int {
	if b.trap == 0 {
		return traps + 1
	}
	return b.trap
}

// TestEveryTrapHasABug: each guard against a trap is removed at least once.
func TestEveryTrapHasABug(t *testing.T) {
	planted, names := map[int]bool{}, map[string]bool{}
	for _, b := range bugs {
		planted[b.trap] = true
		if b.trap < 0 || b.trap > traps || (b.trap == 0) != (b.run != "") {
			t.Errorf("%q is of trap %d and has the tests %q: it needs one of them", b.name, b.trap, b.run)
		}
		if names[b.name] {
			t.Errorf("two bugs are called %q", b.name)
		}
		names[b.name] = true
	}
	for trap := 1; trap <= traps; trap++ {
		if !planted[trap] {
			t.Errorf("no bug removes a guard against trap %d", trap)
		}
	}
}
