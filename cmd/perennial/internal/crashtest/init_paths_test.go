package crashtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// From another directory, a relative path would lead to an empty ledger, which does not know what
// was already charged.
func TestOneConfigurationIsOneLedgerFromEveryDirectory(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	run, line := w.run()
	w.mustCLI("renew", "px_1", "--id", "paid", "--wait")
	w.settled(run, "paid")
	if line.Data != "./data" {
		t.Errorf("the path is printed as %q", line.Data)
	}
	elsewhere := &world{t: t, dir: t.TempDir()}
	file := filepath.Join(w.dir, "perennial.yaml")
	if out := elsewhere.mustCLI("status", "paid", "--config", file); !strings.Contains(out, "completed") {
		t.Error(out)
	}
	if left, _ := os.ReadDir(elsewhere.dir); len(left) > 0 {
		t.Errorf("%v was made in the current directory", left)
	}
}
