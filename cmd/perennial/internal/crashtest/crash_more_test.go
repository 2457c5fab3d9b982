//go:build check

package crashtest

import (
	"strings"
	"syscall"
	"testing"

	"perennial/cmd/perennial/internal/cli"
	"perennial/cmd/perennial/internal/daemon"
	"perennial/ledger/testrun"
)

// The test kills the runner outside of the processing of one command: during recovery, drain,
// migration and reconciliation.
func TestCrashMatrixKilledElsewhere(t *testing.T) {
	t.Parallel()
	c := crashCommands(moment{kind: "renew"})
	scenes := map[string]func(t *testing.T, w *world, point string){
		"recovery.begun": killedInRecovery, "recovery.one": killedInRecovery,
		"ledger.migrating": killedAtStart, "ledger.migrated": killedAtStart,
		"reconciliation.read": func(t *testing.T, w *world, point string) {
			run := w.runUntil(point + " kill")
			var line daemon.ReadyLine
			run.ready(&line)
			c.publish(t, line.NATS)
			c.await(t, line.NATS)
			if _, _, code := w.cli("ledger", "reconcile", "--nats", line.NATS); code == cli.ExitDone {
				t.Error("the reconciliation ended although its runner was killed")
			}
			run.awaitKilled()
		},
		"drain.begun": killedInDrain, "drain.begun>result.inside": killedInDrain, "drain.begun>result.committed": killedInDrain,
	}
	for point, scene := range scenes {
		t.Run(strings.ReplaceAll(point, ">", " "), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 4)
			scene(t, w, point)
			w.finish(c)
		})
	}
}

// SIGSTOP stops the runner at every named moment on an external NATS server. It continues after its
// lease has expired and its commands were redelivered.
func TestCrashMatrixStopped(t *testing.T) {
	t.Parallel()
	for _, m := range outerMoments() {
		t.Run(m.String(), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 4)
			n := startOuterNATS(t, w)
			wire := w.through(m.wire)
			w.configure(n.url(), "")
			run := w.runUntil(m.point + " stop")
			wire.arm(func() { _ = run.cmd.Process.Signal(syscall.SIGSTOP) })
			var line daemon.ReadyLine
			run.ready(&line)
			n.hurry()
			c := crashCommands(m)
			c.publish(t, n.url())
			run.awaitStopped()
			n.awaitLeaseGone()
			_ = run.cmd.Process.Signal(syscall.SIGCONT)
			c.publish(t, n.url())
			c.await(t, n.url())
			if code := run.terminate(); code != cli.ExitDone {
				t.Errorf("run ended with code %d\n%s", code, run.stderr)
			}
			n.server.Shutdown()
			checkBooks(t, w, c.ids())
		})
	}
}

// SIGSTOP stops the runner in the middle of a sweep, on an external NATS server, until its lease
// has expired. Outside of `make check` the test uses one moment.
func TestCrashMatrixSweepsStopped(t *testing.T) {
	t.Parallel()
	moments := sweepMoments()
	if !testrun.Check {
		moments = moments[2:3] // a plan is published, and its slot has not ended
	}
	for _, m := range moments {
		t.Run(m.point, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, m.proxies)
			n := startOuterNATS(t, w)
			w.sweepEverySecond(m, n.url())
			run := w.runUntil(m.point + " stop")
			run.awaitStopped()
			n.hurry()
			n.awaitLeaseGone()
			_ = run.cmd.Process.Signal(syscall.SIGCONT)
			w.awaitSwept(m.proxies)
			if code := run.terminate(); code != cli.ExitDone {
				t.Errorf("run ended with code %d\n%s", code, run.stderr)
			}
			n.server.Shutdown()
			checkSwept(t, w, m.proxies)
		})
	}
}
