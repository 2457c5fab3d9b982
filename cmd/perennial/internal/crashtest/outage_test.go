//go:build check

package crashtest

import (
	"strings"
	"testing"

	"perennial/cmd/perennial/internal/cli"
)

// The start continues without NATS, and /readyz says why the runner does not work.
func TestAStartWaitsForNATSAndForItsLogin(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 200)
	n := newNATSProcess(t, w)
	w.configure(n.url(), "")
	run, line := w.run()
	w.readySays(line, "not connected")
	n.start("another")
	w.readySays(line, "Authorization Violation")
	refused := func() bool {
		said, err := w.get(line.HTTP + "/metrics")
		return err == nil && strings.Contains(said, `perennial_ready{account="main"} 0`)
	}
	await(t, "the metrics say it", refused)
	n.kill()
	n.start("pw")
	w.readySays(line, ready)
	c := load()[:10]
	c.publish(t, n.url())
	c.await(t, n.url())
	// The server also refuses the login during the run. Two refused logins do not close the
	// connection for good.
	n.kill()
	n.start("another")
	w.readySays(line, "Authorization Violation")
	n.kill()
	n.start("pw")
	w.readySays(line, ready)
	if code := run.terminate(); code != cli.ExitDone {
		t.Errorf("exit %d\n%s", code, run.stderr)
	}
	n.kill()
	checkBooks(t, w, c.ids())
}
