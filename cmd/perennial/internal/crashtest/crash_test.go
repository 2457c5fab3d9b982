package crashtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"perennial/cmd/perennial/internal/cli"
	"perennial/cmd/perennial/internal/daemon"
	"perennial/ledger/disktest"
	"perennial/ledger/testrun"
)

// crashVariable says where a process of a test kills or stops itself: "POINT SIGNAL", or
// "FIRST>POINT SIGNAL" for the first POINT after a FIRST.
const crashVariable = "PERENNIAL_TEST_CRASH"

// crashAt sends this process the signal when it reaches the point.
func crashAt(spec string) func(string) {
	where, signal, _ := strings.Cut(spec, " ")
	armed := true
	first, point, two := strings.Cut(where, ">")
	if two {
		armed = false
	} else {
		point = first
	}
	var mu sync.Mutex
	return func(at string) {
		mu.Lock()
		defer mu.Unlock()
		if at == first && !armed {
			armed = true
			fmt.Fprintln(os.Stderr, "reached", first)
		} else if at == point && armed {
			armed, point = false, ""
			number := syscall.SIGKILL
			if signal == "stop" {
				number = syscall.SIGSTOP
			}
			_ = syscall.Kill(os.Getpid(), number)
		}
	}
}

// moment is one row of the crash matrix, and what a run needs to reach it.
type moment struct {
	point string
	kind  string // of the command that passes the point: order or renew
	more  string // fields added to the command
	wire  string // the wire between runner and provider strikes, and not the program
}

func (m moment) String() string { return strings.ReplaceAll(m.point+" "+m.kind, ">", " ") }

func moments() []moment {
	var all []moment
	for _, kind := range []string{"order", "renew"} {
		for _, point := range []string{
			"intake.delivered", "intake.inside", "intake.committed", "intake.acknowledged", "send.before", "send.received",
			"result.inside", "result.committed", "intake.committed>outbox.sent",
		} {
			all = append(all, moment{point: point, kind: kind})
		}
		// With a ceiling, the runner looks up the price between acceptance and intent.
		for _, point := range []string{"intent.inside", "intent.committed"} {
			all = append(all, moment{point: point, kind: kind, more: `,"max_total_cents":5000`})
		}
		for _, wire := range []string{"request", "executed", "response"} {
			all = append(all, moment{point: "wire." + wire, kind: kind, wire: wire})
		}
	}
	return append(all,
		moment{point: "poll.before", kind: "order"},
		moment{point: "poll.received", kind: "order"},
		moment{point: "poll.refund", kind: "order", more: `,"sandbox_scenario":"rejected"`},
	)
}

// momentsOnce has each point once outside of `make check`, alternating between an order and a
// renewal.
func momentsOnce() (some []moment) {
	if testrun.Check {
		return moments()
	}
	has := map[string]bool{}
	for i, m := range moments() {
		if !has[m.point] && (i%2 == 0 || m.kind == "renew" || strings.HasPrefix(m.point, "poll.")) {
			has[m.point] = true
			some = append(some, m)
		}
	}
	return some
}

// SIGKILL hits the runner at every named moment of an order and a renewal, each in its own world.
// The next run finishes the work, and the referee, ledger, wallet and events agree.
func TestCrashMatrixKilled(t *testing.T) {
	t.Parallel()
	for _, m := range momentsOnce() {
		t.Run(m.String(), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 4)
			wire := w.through(m.wire)
			run := w.runUntil(m.point + " kill")
			wire.arm(func() { _ = run.cmd.Process.Kill() })
			var line daemon.ReadyLine
			run.ready(&line)
			c := crashCommands(m)
			c.publish(t, line.NATS)
			run.awaitKilled()
			w.finish(c)
		})
	}
}

// SIGKILL hits the runner in the middle of an SQLite write. The write goes to the log, during a
// migration and during work, or to the database file, which only a checkpoint writes.
func TestCrashMatrixKilledWhileSQLiteWrites(t *testing.T) {
	t.Parallel()
	for i, at := range []struct {
		suffix string
		write  int
	}{{"ledger.db-wal", 1}, {"ledger.db-wal", 20}, {"ledger.db-wal", 60}, {"ledger.db-wal", 72}, {"ledger.db", 2}, {"ledger.db", 9}} {
		if i%2 == 1 && !testrun.Check {
			continue // only every second case outside of `make check`
		}
		t.Run(fmt.Sprint(at.suffix, " ", at.write), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 4)
			disk := disktest.New(t, "ledger.")
			c := crashCommands(moment{kind: "renew"})
			run := startIn(t, w.dir, append(disk.Environment(), disk.KillAt(at.write, at.suffix)), "run")
			if line, err := run.stdout.ReadBytes('\n'); err == nil {
				var ready daemon.ReadyLine
				if err := json.Unmarshal(line, &ready); err != nil {
					t.Fatal(err)
				}
				c.publish(t, ready.NATS)
				_ = run.cmd.Process.Signal(syscall.SIGTERM) // closing the database checkpoints it
			}
			run.awaitKilled()
			w.finish(c)
		})
	}
}

// killedInRecovery kills the runner while an attempt has no reply, and again while the next run
// recovers that attempt.
func killedInRecovery(t *testing.T, w *world, point string) {
	c := crashCommands(moment{kind: "renew"})
	run := w.runUntil("send.received kill")
	var line daemon.ReadyLine
	run.ready(&line)
	c.publish(t, line.NATS)
	run.awaitKilled()
	w.runUntil(point + " kill").awaitKilled()
}

func killedAtStart(_ *testing.T, w *world, point string) { w.runUntil(point + " kill").awaitKilled() }

// killedInDrain stops the runner while a reply is on its way. The reply arrives after the drain has
// begun.
func killedInDrain(t *testing.T, w *world, point string) {
	wire := w.through("executed")
	run := w.runUntil(point + " kill")
	wire.arm(func() {
		_ = run.cmd.Process.Signal(syscall.SIGTERM)
		if strings.Contains(point, ">") {
			await(t, "the drain has begun", func() bool { return strings.Contains(run.stderr.String(), "reached drain.begun") })
		}
	})
	var line daemon.ReadyLine
	run.ready(&line)
	crashCommands(moment{kind: "renew"}).publish(t, line.NATS)
	run.awaitKilled()
}

// A kill of `backup create` at any moment leaves no partial copy under the requested name, and the
// next backup succeeds.
func TestCrashMatrixBackup(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4)
	c := crashCommands(moment{kind: "renew"})
	run, line := w.run()
	c.publish(t, line.NATS)
	c.await(t, line.NATS)
	out := filepath.Join(w.dir, "copy.db")
	for _, point := range []string{"backup.copied", "backup.verified"} {
		startIn(t, w.dir, []string{crashVariable + "=" + point + " kill"}, "ledger", "backup", out).awaitKilled()
		if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: something stands at %s: %v", point, out, err)
		}
	}
	if _, stderr, code := w.cli("ledger", "backup", out); code != cli.ExitDone {
		t.Errorf("the backup behind them: %d %s", code, stderr)
	}
	run.terminate()
	w.finish(c)
}

// crashed is the commands of one case: the one under test, and one of another kind.
type crashed []published

func crashCommands(m moment) crashed {
	order := `{"id":"o1","duration_days":30,"items":[{"offer_code":"off_us_1","quantity":2}]%s}`
	renew := `{"id":"r1","proxy_ids":["px_1"],"duration_days":30%s}`
	more := map[string]string{m.kind: m.more}
	all := crashed{
		{id: "o1", subject: "perennial.commands.main.order.create", body: fmt.Appendf(nil, order, more["order"])},
		{id: "r1", subject: "perennial.commands.main.proxy.renew", body: fmt.Appendf(nil, renew, more["renew"])},
	}
	if m.kind == "renew" { // the command under test comes first
		all[0], all[1] = all[1], all[0]
	}
	return all
}

func (c crashed) ids() (ids []string) {
	for _, x := range c {
		ids = append(ids, x.id)
	}
	return ids
}

// publish publishes every command twice. finish publishes again what a killed run lost.
func (c crashed) publish(t testing.TB, url string) {
	t.Helper()
	nc, js := connectTo(t, url)
	defer nc.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	context.AfterFunc(ctx, nc.Close)
	for range 2 {
		for _, x := range c {
			if _, err := js.PublishMsgAsync(messageOf(x)); err != nil {
				return
			}
		}
	}
	_ = nc.FlushTimeout(5 * time.Second)
}

func (c crashed) await(t testing.TB, url string) {
	t.Helper()
	p := producer{w: &world{t: t}}
	for i := range c {
		p.commands = append(p.commands, &c[i])
	}
	p.waitForAll(url)
}

// finish runs a runner without faults until everything has ended, and compares the books.
func (w *world) finish(c crashed) {
	w.t.Helper()
	run, line := w.run()
	c.publish(w.t, line.NATS)
	c.await(w.t, line.NATS)
	if code := run.terminate(); code != cli.ExitDone {
		w.t.Errorf("run ended with code %d\n%s", code, run.stderr)
	}
	checkBooks(w.t, w, c.ids())
}

// runUntil starts a runner that kills or stops itself at a point.
func (w *world) runUntil(spec string) *process {
	w.t.Helper()
	return startIn(w.t, w.dir, []string{crashVariable + "=" + spec}, "run")
}

// await polls until a condition holds. It polls less often over time, so that the processes under
// test get the processors.
func await(t testing.TB, what string, is func() bool) {
	t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for pause := time.Millisecond; !is(); pause = min(2*pause, 64*time.Millisecond) {
		select {
		case <-time.After(pause):
		case <-late.C:
			t.Fatalf("never happened: %s", what)
		}
	}
}

func (p *process) awaitKilled() {
	p.t.Helper()
	if code := p.wait(); code != -1 {
		p.t.Fatalf("it was not killed, and ended with code %d\n%s", code, p.stderr)
	}
	if p.late {
		p.t.Fatalf("%v did not reach the point within %s\n%s", p.cmd.Args[1:], patience, p.stderr)
	}
}

func (p *process) awaitStopped() {
	p.t.Helper()
	await(p.t, "the process stands still", func() bool {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
		if err != nil {
			p.t.Fatalf("the process has ended: %v\n%s", err, p.stderr)
		}
		_, state, _ := strings.Cut(string(text), ") ")
		return strings.HasPrefix(state, "T")
	})
}
