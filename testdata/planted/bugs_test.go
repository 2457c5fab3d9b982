package planted

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
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
	file     string
	old, new string
	run      string // -run of go test; of a trap: its tests
}

// bugs is everything that is planted.
var bugs = slices.Concat(upstreamBugs, decisionBugs, runnerBugs, ledgerBugs, sweepBugs, auditBugs, fleetBugs, queueBugs, boundBugs, fileBugs)

// room names the package of the file.
func (b bug) room() string { return "./" + strings.TrimSuffix(path.Dir(b.file), "/migrations") }

// pkgs are the packages whose tests have to notice: that of the file where it has one
// of them, else every package that has.
func (b bug) pkgs(t *testing.T) []string {
	t.Helper()
	named := regexp.MustCompile("^func ((Test|Fuzz).*(" + b.tests() + "))|^func (" + b.tests() + ")")
	var have []string
	for _, p := range testPackages(t) {
		if slices.ContainsFunc(p.tests, named.MatchString) {
			have = append(have, p.dir)
		}
	}
	if slices.Contains(have, b.room()) {
		return []string{b.room()}
	}
	return have
}

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

// unbuilt are the traps that have no guard yet, and why.
var unbuilt = map[int]string{
	59: "facts are committed before they are published, also on an external NATS",
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
		if !planted[trap] && unbuilt[trap] == "" {
			t.Errorf("no bug removes a guard against trap %d", trap)
		}
	}
}

// testPackage is a directory and the declarations of the tests in it.
type testPackage struct {
	dir   string
	tests []string
}

// testPackages are all packages of the module that have tests.
var testPackages = func() func(t *testing.T) []testPackage {
	var once sync.Once
	var all []testPackage
	declared := regexp.MustCompile(`(?m)^func (Test|Fuzz)\w+`)
	return func(t *testing.T) []testPackage {
		t.Helper()
		once.Do(func() {
			at := map[string][]string{}
			err := filepath.WalkDir(root, func(file string, _ fs.DirEntry, err error) error {
				if err != nil || !strings.HasSuffix(file, "_test.go") {
					return err
				}
				text, err := os.ReadFile(file)
				dir := "./" + strings.TrimPrefix(filepath.ToSlash(filepath.Dir(file)), root+"/")
				at[dir] = append(at[dir], declared.FindAllString(string(text), -1)...)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, dir := range slices.Sorted(maps.Keys(at)) {
				all = append(all, testPackage{dir, at[dir]})
			}
		})
		return all
	}
}()
