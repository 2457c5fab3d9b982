package life

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"perennial/ledger/testrun"
)

var _ = flag.Bool("update", false, "write the table into docs/state-machine.md")

// TestAPairOfPhaseAndOutcomeHasOneArrow: the table is no place for order to decide.
func TestAPairOfPhaseAndOutcomeHasOneArrow(t *testing.T) {
	t.Parallel()
	for _, p := range Phases {
		for _, o := range Outcomes {
			n := 0
			for _, a := range Arrows {
				if a.Outcome == o && slices.Contains(a.From, p) {
					n++
				}
			}
			if n > 1 || n == 0 && p != Stopped && slices.Contains([]Outcome{Stop, Refused, Unusable, Failed}, o) {
				t.Errorf("%s, %s: %d arrows", p, o, n)
			}
		}
	}
}

// TestOnlyATakeOverLeads: no account leads that has not read the events to their end.
func TestOnlyATakeOverLeads(t *testing.T) {
	t.Parallel()
	for _, p := range Phases {
		for _, o := range Outcomes {
			if a := After(p, o); a.To == Leading && (p != TakingOver || o != Done) {
				t.Errorf("%s leads after %s", p, o)
			}
			if a := After(p, o); a.To == TakingOver && (p != Following || o != Done) {
				t.Errorf("%s takes over after %s, without a lease of its own", p, o)
			}
		}
	}
}

// TestOnlyAnOperatorOrAStopEndsALife: whatever else goes wrong, the account leads again
// without a person, and never without a wait after a fault.
func TestOnlyAnOperatorOrAStopEndsALife(t *testing.T) {
	t.Parallel()
	for _, p := range Phases[:len(Phases)-1] {
		for _, o := range Outcomes {
			a := After(p, o)
			if ends := o == Stop || o == Refused; ends != (a.To == Stopped) {
				t.Errorf("%s after %s: %s", p, o, a.To)
				continue
			}
			if a.To == Closed && !a.Waits {
				t.Errorf("%s after %s: begins again without a wait", p, o)
			}
			for n := 0; a.To != Stopped && a.To != Leading; n++ {
				if a = After(a.To, Done); n > len(Phases) {
					t.Fatalf("%s after %s: leads no more", p, o)
				}
			}
		}
	}
}

// TestEveryPhaseOfALifeIsInTheDocument writes the table of docs/state-machine.md.
func TestEveryPhaseOfALifeIsInTheDocument(t *testing.T) {
	var rows strings.Builder
	for _, a := range Arrows {
		var from []string
		for _, p := range a.From {
			from = append(from, fmt.Sprintf("%#q", p))
		}
		waits := "immediately"
		if a.Waits {
			waits = "after 250 ms to 15 s"
		}
		fmt.Fprintf(&rows, "| %s | %s | `%s` | %s | %s |\n", strings.Join(from, ", "), a.Outcome, a.To, waits, a.Why)
	}
	testrun.Table(t, "docs/state-machine.md", "| in | outcome | next | when | why |\n|---|---|---|---|---|\n", rows.String())
}
