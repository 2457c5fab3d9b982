// The copies that an external NATS server keeps, as doctor checks them.

package crashtest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perennial/cmd/perennial/internal/cli"
)

func (w *world) reconfigure(old, with string) {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join(w.dir, "perennial.yaml"))
	if err != nil || !strings.Contains(string(text), old) {
		w.t.Fatalf("%v: %q is not in\n%s", err, old, text)
	}
	w.write("perennial.yaml", strings.Replace(string(text), old, with, 1), 0o600)
}

// saysItSyncs configures sync_always: the server syncs every write.
func (w *world) saysItSyncs() {
	w.t.Helper()
	w.reconfigure("listen: 127.0.0.1:0", "listen: 127.0.0.1:0, sync_always: true")
}

// The doctor refuses a single copy before and after the first start, until the configuration states
// that the server syncs.
func TestTheDoctorRefusesOneCopyThatIsNotSynced(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	n := newNATSProcess(t, w)
	n.start("pw")
	w.configure(n.url(), "")
	refused := func(when, stream string) {
		f := examined(t, w, cli.ExitFailed)["durability"]
		if f.OK || !strings.Contains(f.Seen, stream) || !strings.Contains(f.Seen, "single server") || !strings.Contains(f.Do, "replicas: 3") || !strings.Contains(f.Do, "nats.sync_always") {
			t.Errorf("%s: %+v", when, f)
		}
	}
	refused("before the first start", "each stream")
	p, line := w.run()
	w.readySays(line, ready)
	refused("behind it", "PERENNIAL_EVENTS_main")
	p.kill()
	w.saysItSyncs()
	if f := examined(t, w, cli.ExitDone)["durability"]; !f.OK || f.Warning || !strings.Contains(f.Seen, "nats.sync_always") {
		t.Errorf("a server that syncs: %+v", f)
	}
	if err := os.RemoveAll(filepath.Join(w.dir, "data")); err != nil {
		t.Fatal(err)
	}
	if f := examined(t, w, cli.ExitDone)["ledger"]; !f.OK || !strings.Contains(f.Seen, "`perennial run` makes it") {
		t.Errorf("a runner that joins: %+v", f)
	}
}

// Both the start and the doctor refuse more than one copy.
func TestTheEmbeddedServerKeepsOneCopy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.configure("", "    replicas: 3\n")
	if out, errs, code := w.cli("run"); code != cli.ExitFailed || !strings.Contains(errs, "accounts.main.replicas is 3") || !strings.Contains(errs, "set it to 1") {
		t.Errorf("run: exit %d\n%s%s", code, out, errs)
	}
	if f := examined(t, w, cli.ExitFailed)["replicas"]; f.OK || !strings.Contains(f.Do, "nats.url") {
		t.Errorf("doctor: %+v", f)
	}
}

// durability returns the doctor's finding about copies, and its exit code.
func (w *world) durability() (found cli.DoctorFinding, code int) {
	w.t.Helper()
	out, _, code := w.cli("doctor", "-o", "json")
	for line := range strings.Lines(out) {
		var f cli.DoctorFinding
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			w.t.Fatal(err)
		}
		if f.Check == "durability" {
			found = f
		}
	}
	return found, code
}
