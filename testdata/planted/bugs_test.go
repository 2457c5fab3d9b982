package planted

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
)

// traps is the number of traps of the customer API. Each must have a planted bug: the tests that name
// the trap, TestTrap07…, must fail when its guard is removed.
const traps = 76

// A bug is a change in one place that a quick reader of the API's document might write, and the
// tests that must notice it.
type bug struct {
	trap     int // 0: no trap
	name     string
	in       string // the declaration that is changed: package.Name, or package.Type.Method
	file     string // instead of in, if the bug is in a whole file such as a migration
	old, new string
	run      string // -run of go test; "" for the tests of the trap
}

var bugs = slices.Concat(upstreamBugs, decisionBugs, runnerBugs, ledgerBugs, sweepBugs, auditBugs, fleetBugs, queueBugs, boundBugs, fileBugs, journalBugs, webhookBugs, webBugs)

// tests returns the -run pattern of the tests that must notice the bug: TestTrap07… and
// TestTrap06And07….
func (b bug) tests() string {
	return cmp.Or(b.run, fmt.Sprintf(`Trap(\d\dAnd)?%02d`, b.trap))
}

// number returns the trap as the page shows it.
func (b bug) number() string {
	if b.trap == 0 {
		return ""
	}
	return fmt.Sprintf("%02d", b.trap)
}

// order sorts by trap. Bugs without a trap come last.
func (b bug) order() int {
	if b.trap == 0 {
		return traps + 1
	}
	return b.trap
}

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
