package decide

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"perennial/ledger/fact"
)

var updateWaits = flag.Bool("update", false, "write the table of waits into docs/state-machine.md")

// stateMachine is the document that prints the table, between its heading and the next one.
const (
	stateMachine = "../../docs/state-machine.md"
	waitsHeading = "## What waits, and what ends it\n"
)

// TestEveryWaitHasAnEnd: each code with which something waits is in the table, each wait ends by
// itself or is a person's at once, and the document prints the table.
func TestEveryWaitHasAnEnd(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	var rows strings.Builder
	rows.WriteString("| what | reason | what ends it by itself | when a person is asked | check of `/readyz` | metric | come to in |\n|---|---|---|---|---|---|---|\n")
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
	printsWaits(t, rows.String())
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func printsWaits(t *testing.T, rows string) {
	t.Helper()
	path := filepath.FromSlash(stateMachine)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), waitsHeading)
	lines := strings.SplitAfter(rest, "\n")
	first := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "| what | reason |") })
	if !found || first < 0 {
		t.Fatalf("%s has no table after %q", stateMachine, waitsHeading)
	}
	after := first
	for after < len(lines) && strings.HasPrefix(lines[after], "|") {
		after++
	}
	if strings.Join(lines[first:after], "") == rows {
		return
	}
	if !*updateWaits {
		t.Fatalf("%s prints another table: go test ./jobs/decide -run EveryWait -update", stateMachine)
	}
	out := before + waitsHeading + strings.Join(lines[:first], "") + rows + strings.Join(lines[after:], "")
	if err := os.WriteFile(path, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
}
