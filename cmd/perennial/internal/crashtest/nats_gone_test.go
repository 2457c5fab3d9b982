package crashtest

import (
	"slices"
	"strings"
	"testing"
)

// The output says that NATS is unreachable, and nothing about streams, whose state is then unknown.
func TestWithoutNATSTheReasonIsSaidOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	n := newNATSProcess(t, w)
	w.configure(n.url(), "")
	n.start("pw")
	run, line := w.run()
	awaitReady(t, line)
	n.kill()
	var text string
	await(t, "the streams to be not ready", func() bool {
		text, _ = w.get(line.HTTP + "/readyz")
		return strings.Contains(text, "is not connected") && !passes(w.verbose(line), "streams")
	})
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if slices.Sort(lines); len(slices.Compact(slices.Clone(lines))) != len(lines) {
		t.Errorf("said twice:\n%s", text)
	}
	if log := run.stderr.String(); strings.Contains(log+text, "outbound buffer") || strings.Contains(log, "streams are not as they should be") {
		t.Errorf("%s\n%s", text, log)
	}
}
