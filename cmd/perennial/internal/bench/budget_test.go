//go:build check

// What a whole command may allocate in the runner: a count, which is the same on every
// machine within what the size of a group changes.

package bench

import "testing"

// allocationsBudget is what a command that is taken from a full queue may allocate. Half
// of it is the HTTP client, NATS messages of four events and what database/sql's driver
// wants of each argument; the ledger's own part has a budget in ledger/testdata/budget.txt.
// Raise a number with the reason; lower it when less is used.
var allocationsBudget = map[string]float64{
	"renew": 700,  // 520 with two processors, 565 with one, whose groups are smaller; up to 70 of the start, which counts what no schedule renews; 665 beside a linter
	"order": 1150, // 835 and 900; as above; 1,100 beside a linter
}

func TestACommandKeepsItsBudget(t *testing.T) {
	for kind, most := range allocationsBudget {
		o := small()
		o.Kind, o.Drain, o.Commands, o.Concurrency = kind, true, 1500, 64
		out := measured(t, o)
		if got := out.Drained.Allocations; got > most {
			t.Errorf("%s: %.0f allocations of %.0f: say here why it is worth more, or use less", kind, got, most)
		} else {
			t.Logf("%s: %.0f allocations of %.0f", kind, got, most)
		}
	}
}
