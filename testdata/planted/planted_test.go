// Package planted proves the tests. It plants each bug that an engineer could write in a copy of
// the code that only the compiler sees. For each single bug, the tests that should notice it must
// fail: those that name the trap whose guard the bug removes. `make check` runs it, and `go test
// ./...` does not.
package planted

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

var update = flag.Bool("update", false, "write what caught each bug into testdata/planted/README.md")

const (
	root  = "../.."
	page  = "README.md"
	begin = "<!-- planted: begin -->\n"
	end   = "<!-- planted: end -->\n"
)

func TestEveryPlantedBugIsCaught(t *testing.T) {
	var mu sync.Mutex
	caught := map[string][]string{}
	t.Run("bugs", func(t *testing.T) {
		all, places := plantTogether(t), make(chan struct{}, 2*runtime.NumCPU())
		for _, b := range bugs {
			t.Run(b.name, func(t *testing.T) {
				t.Parallel()
				places <- struct{}{}
				defer func() { <-places }()
				by := b.plant(t, all)
				mu.Lock()
				defer mu.Unlock()
				caught[b.name] = by
			})
		}
	})
	if *update && !t.Failed() {
		write(t, caught)
	}
	text := read(t, page)
	for _, b := range bugs {
		if !strings.Contains(text, "| "+b.name+" |") {
			t.Errorf("testdata/planted/README.md does not list %q: go test ./testdata/planted -update", b.name)
		}
	}
}

var failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (Test\w+)`)

// flags are extra test flags of some packages: fewer random cases, no file about a failure, and the
// same random cases each time, so that a bug that was caught is caught again.
var flags = map[string][]string{
	"./jobs/decide": {"-rapid.checks", "300", "-rapid.seed", "1", "-rapid.nofailfile"},
	"./jobs":        {"-sim.seeds", "100", "-rapid.checks", "300", "-rapid.seed", "1", "-rapid.nofailfile", "-patience", "15s"},
	"./ledger":      {"-rapid.checks", "20", "-rapid.seed", "1", "-rapid.nofailfile"},
	"./queue":       {"-patience", "15s"},
	"./upstream":    {"-rapid.seed", "1", "-rapid.nofailfile"},

	"./queue/bucket":    {"-patience", "15s"},
	"./queue/broker":    {"-patience", "15s"},
	"./queue/embedded":  {"-patience", "15s"},
	"./queue/events":    {"-patience", "15s"},
	"./queue/intake":    {"-patience", "15s"},
	"./queue/lease":     {"-patience", "15s"},
	"./queue/nodes":     {"-patience", "15s"},
	"./queue/objects":   {"-patience", "15s"},
	"./queue/outbox":    {"-patience", "15s"},
	"./queue/positions": {"-patience", "15s"},
	"./queue/publish":   {"-patience", "15s"},
	"./queue/roles":     {"-patience", "15s"},
	"./queue/service":   {"-patience", "15s"},
	"./queue/streams":   {"-patience", "15s"},
	"./queue/trial":     {"-patience", "15s"},
	"./queue/letters":   {"-rapid.seed", "1", "-rapid.nofailfile", "-patience", "15s"},

	"./cmd/perennial/internal/crashtest": {"-test.timeout", "300s"},
	"./cmd/perennial/internal/schema":    {"-rapid.seed", "1", "-rapid.nofailfile"},
	"./cmd/perennial/internal/placement": {"-rapid.seed", "1", "-rapid.nofailfile"},
}

// overlay writes the changed file and an overlay for -overlay of the go tool.
func (b bug) overlay(t *testing.T) string {
	t.Helper()
	at := b.place(t)
	text := read(t, filepath.Join(root, at.file))
	part := text[at.from:min(at.to, len(text))]
	if n := strings.Count(part, b.old); n != 1 {
		t.Fatalf("%s holds the text that is to be changed %d times: the code has moved, plant the bug anew\n%s", b.where(), n, b.old)
	}
	text = text[:at.from] + strings.Replace(part, b.old, b.new, 1) + text[at.from+len(part):]
	return overlayOf(t, t.TempDir(), map[string]string{at.file: text})
}

// cheap are build flags without optimization and debug information, because building takes most of
// the time.
var cheap = []string{"-ldflags=-s -w", "-gcflags=perennial/...=-N -l -dwarf=false"}

// plant runs the tests with the bug and returns those that failed. It tries the bug's own package
// first, and the next package only if no test failed.
func (b bug) plant(t *testing.T, all *together) []string {
	t.Helper()
	pkgs := b.pkgs(t)
	for _, pkg := range pkgs {
		cmd := alone
		if all.numbers[b.name] != "" {
			cmd = all.test
		}
		if by := failures(t, pkg, cmd(t, b, pkg)); len(by) > 0 || t.Failed() {
			return by
		}
	}
	t.Errorf("no test noticed it: %s of %v", b.tests(), pkgs)
	return nil
}

// alone returns the command that builds the package's tests with this bug and runs them.
func alone(t *testing.T, b bug, pkg string) *exec.Cmd {
	t.Helper()
	args := slices.Concat([]string{"test", "-tags", "check"}, cheap, []string{"-overlay", b.overlay(t), "-vet", "off", "-count", "1", "-failfast", "-timeout", "100s", "-run", b.tests(), pkg}, flags[pkg])
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	return cmd
}

// failures runs the tests of a package and returns those that failed.
func failures(t *testing.T, pkg string, cmd *exec.Cmd) (by []string) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	for _, m := range failed.FindAllStringSubmatch(string(out), -1) {
		if !slices.Contains(by, m[1]) {
			by = append(by, m[1])
		}
	}
	if err != nil && len(by) == 0 {
		t.Errorf("no test of %s failed, but the run did: %v\n%s", pkg, err, out)
	}
	return by
}

func write(t *testing.T, caught map[string][]string) {
	t.Helper()
	var table strings.Builder
	table.WriteString("| trap | planted bug | where | caught first by |\n|---|---|---|---|\n")
	for _, b := range slices.SortedStableFunc(slices.Values(bugs), func(a, b bug) int { return cmp.Compare(a.order(), b.order()) }) {
		by := caught[b.name]
		fmt.Fprintf(&table, "| %s | %s | `%s` | `%s` |\n", b.number(), b.name, b.where(), strings.Join(by, "`, `"))
	}
	fill(t, begin, end, table.String())
}

// fill replaces the table between two marks of the page.
func fill(t *testing.T, begin, end, table string) {
	t.Helper()
	head, rest, ok := strings.Cut(read(t, page), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", page)
	}
	save(t, page, head+begin+table+end+tail)
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func save(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Each bug's text occurs exactly once in its place, and each bug has tests that may notice it.
func TestEveryPlaceIsThere(t *testing.T) {
	for _, b := range bugs {
		at := b.place(t)
		text := read(t, filepath.Join(root, at.file))
		if n := strings.Count(text[at.from:min(at.to, len(text))], b.old); n != 1 {
			t.Errorf("%s: %s holds the text %d times", b.name, b.where(), n)
		}
		if len(b.pkgs(t)) == 0 {
			t.Errorf("%s: no test is named as %s", b.name, b.tests())
		}
	}
}
