package crashtest

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"perennial/cmd/perennial/internal/cli"
	"perennial/queue"
)

// A runner that restarts on its data directory after a kill does not wait for its own lease, which
// lasts an hour here. A runner with another directory waits.
func TestARestartedRunnerHasItsLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	outer := startOuterNATS(t, w)
	if err := outer.js.DeleteKeyValue(t.Context(), queue.LeaseBucket); err != nil {
		t.Fatal(err)
	}
	if _, err := outer.js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: queue.LeaseBucket, TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	w.configure(outer.url(), "")
	run, line := w.run()
	w.readySays(line, ready)
	run.kill()
	run, line = w.run()
	w.readySays(line, ready)
	if _, errs, code := w.cli("renew", "px_1", "--id", "r1", "--wait"); code != 0 {
		t.Errorf("exit %d: %s", code, errs)
	}
	run.kill()
	standby, line := w.run("--data", "data-2")
	waitForHTTP(t, line.HTTP+"/readyz?verbose", `"standby"`)
	standby.kill()
	if err := outer.js.DeleteKeyValue(t.Context(), queue.LeaseBucket); err != nil {
		t.Fatal(err)
	}
	if f := examined(t, w, cli.ExitFailed)["leases"]; f.OK || !strings.Contains(f.Seen, queue.LeaseBucket+", ") || f.Do == "" {
		t.Errorf("the bucket is gone: %+v", f)
	}
}
