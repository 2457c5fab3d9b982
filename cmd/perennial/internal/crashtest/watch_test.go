package crashtest

import (
	"slices"
	"strings"
	"testing"

	"perennial/cmd/perennial/internal/cli"
)

// Users save the output to verify or sum the stream.
func TestWatchStoredEndsBehindTheLastEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.run()
	w.mustCLI("renew", "px_1", "--id", "r1", "--wait")
	printed := func(flags ...string) (types []string) {
		t.Helper()
		for text := range strings.Lines(w.mustCLI(append([]string{"watch", "--stored", "-o", "json"}, flags...)...)) {
			types = append(types, decode[struct{ Type string }](t, text).Type)
		}
		return types
	}
	all := printed()
	for i, row := range w.journal(t)[:len(all)] {
		if all[i] != "perennial."+row.Type+".v1" {
			t.Errorf("row %d is %s, and the event %s", row.Seq, row.Type, all[i])
		}
	}
	if !slices.Contains(all, "perennial.command.finished.v1") {
		t.Errorf("the end is not among %v", all)
	}
	if behind := printed("--from", "3"); len(behind) < len(all)-2 || !slices.Equal(behind[:len(all)-2], all[2:]) {
		t.Errorf("from the third event %v, of all %v", behind, all)
	}
	if ends := printed("--type", "command.f*,sweep.*"); !slices.Equal(ends, []string{"perennial.command.finished.v1"}) {
		t.Errorf("of the ends %v", ends)
	}
	if none := printed("--from", "1000000"); len(none) != 0 {
		t.Errorf("behind the end %v", none)
	}
	if _, errs, code := w.cli("watch", "--stored", "--type", "command.*", "--account", "nowhere"); code == cli.ExitDone || errs == "" {
		t.Errorf("of an account that is not there: exit %d %s", code, errs)
	}
}
