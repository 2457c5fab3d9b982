//go:build check

// The allocations of a whole command in the runner. The count is the same on every machine, except
// for the size of a group.

package bench

import "testing"

// allocationsBudget is the maximum for a command from a full queue. Half of it is the HTTP client,
// the NATS messages of four events, and database/sql's conversion of each argument. The ledger's
// own part has its budget in ledger/testdata/budget.txt. Raise a number only with a reason; lower
// it when less is used.
var allocationsBudget = map[string]float64{
	"renew": 700,  // 520 with two processors, 565 with one, whose groups are smaller; up to 70 come from the start, which counts the proxies without a schedule; 665 beside a linter
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
