package decide

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"perennial/ledger/fact"
	"perennial/ledger/testrun"
)

var _ = flag.Bool("update", false, "write the table of waits into docs/state-machine.md")

// TestEveryWaitHasAnEnd: each code with which something waits is in the table, each wait ends by
// itself or is a person's at once, and the document prints the table.
func TestEveryWaitHasAnEnd(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	var rows strings.Builder
	for _, w := range Waits() {
		if known[w.Of+" "+w.Reason] {
			t.Errorf("%s %s is there twice", w.Of, w.Reason)
		}
		known[w.Of+" "+w.Reason] = true
		if w.Ends == "" && w.Person != "at once" {
			t.Errorf("%s %s ends neither by itself nor by a person who is asked at once", w.Of, w.Reason)
		}
		if w.Metric == "" {
			t.Errorf("%s %s is in no metric", w.Of, w.Reason)
		}
		code := func(s string) string {
			if s == "" {
				return ""
			}
			return "`" + s + "`"
		}
		fmt.Fprintf(&rows, "| %s | `%s` | %s | %s | %s | %s | `%s` |\n", w.Of, w.Reason, or(w.Ends, "nothing"), or(w.Person, "never"), code(w.Check), code(w.Metric), w.Test)
	}
	for _, code := range fact.HeldCodes {
		if !known["operation "+string(code)] {
			t.Errorf("operations are held with %s, which is in no table", code)
		}
	}
	for _, code := range fact.SweepHeldCodes {
		if !known["plan "+string(code)] {
			t.Errorf("plans are held with %s, which is in no table", code)
		}
	}
	for _, cause := range append(PauseCauses(), causeRestored) {
		if !known["account "+cause] {
			t.Errorf("accounts are paused for %s, which is in no table", cause)
		}
	}
	testrun.Table(t, "docs/state-machine.md", "| what | reason | what ends it by itself | when a person is asked | check of `/readyz` | metric | come to in |\n|---|---|---|---|---|---|---|\n", rows.String())
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
