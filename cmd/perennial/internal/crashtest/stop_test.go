//go:build check

package crashtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"perennial/cmd/perennial/internal/cli"
	"perennial/cmd/perennial/internal/daemon"
	"perennial/ledger"
	"perennial/ledger/fact"
)

// load is more work than a runner can finish before the test stops it.
func load() (c crashed) {
	for n := range 200 {
		id := fmt.Sprintf("r%d", n)
		c = append(c, published{id: id, subject: "perennial.commands.main.proxy.renew", body: fmt.Appendf(nil, `{"id":%q,"proxy_ids":["px_%d"],"duration_days":30}`, id, n+1)})
		if n%5 == 0 {
			id = fmt.Sprintf("o%d", n)
			c = append(c, published{id: id, subject: "perennial.commands.main.order.create",
				body: fmt.Appendf(nil, `{"id":%q,"duration_days":30,"items":[{"offer_code":"off_us_1","quantity":1}],"sandbox_scenario":"success"}`, id)})
		}
	}
	return c
}

// The stopping run records each sent request with its reply, publishes every fact and exits with 0.
// The next run finds no request without an outcome, and does the rest.
func TestAStopUnderFullLoadAbandonsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 200)
	w.control(http.MethodPost, "/latency", []byte(`{"method":"POST","milliseconds":30,"jitter_milliseconds":30}`))
	run, line := w.run()
	c := load()
	c.publish(t, line.NATS)
	waitForEvent(t, line.NATS, "renewal.completed", "r3")
	if code := run.terminate(); code != cli.ExitDone {
		t.Fatalf("exit %d\n%s", code, run.stderr)
	}
	left := 0
	for _, r := range w.journal(t) {
		if r.Type == "operation.waiting" || r.Type == "operation.review" {
			t.Errorf("a request was abandoned: %s", r.Data)
		}
	}
	for state, n := range w.stateCounts() {
		if state == fact.StateSending {
			t.Errorf("%d operations were left in sending", n)
		}
		if !state.Ended() {
			left += int(n)
		}
	}
	if v := decode[againstLine](t, w.mustCLI("ledger", "verify", "--against-events", "-o", "json")); v.Unpublished != 0 {
		t.Errorf("facts were left unpublished: %+v", v)
	}
	w.control(http.MethodDelete, "/latency", nil)
	t.Logf("%d operations were left for the next run", left)
	w.finish(c)
	for _, r := range w.journal(t) {
		if f, err := fact.Decode(r.Type, []byte(r.Data)); err != nil {
			t.Fatal(err)
		} else if started, ok := f.(fact.RunnerStarted); ok && started.Recovered != 0 {
			t.Errorf("the next run found requests without an outcome: %s", r.Data)
		}
	}
}

// stateCounts counts the stopped runner's operations by state.
func (w *world) stateCounts() map[fact.State]int64 {
	w.t.Helper()
	l, err := ledger.Open(w.t.Context(), ledger.Config{Path: w.ledgerFile(), Clock: time.Now, ReadOnly: true})
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	counts, err := l.Operations.StateCounts(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return counts
}

// The provider has executed the requests, but does not reply. After the first signal the run waits
// for the replies, after the second it ends. The next run sends the requests again with the same
// keys.
func TestASecondSignalStopsAtOnceAndLosesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 200)
	run := w.runUntil("drain.begun>nowhere kill")
	var line daemon.ReadyLine
	run.ready(&line)
	w.fault(map[string]any{"method": "POST", "path": "/api/v1/*", "fault": "hang", "seconds": 3600, "times": 8, "skip": 20})
	c := load()
	c.publish(t, line.NATS)
	await(t, "requests hang", func() bool {
		return strings.Contains(string(w.control(http.MethodGet, "/state", nil)), `"processing":8`)
	})
	_ = run.cmd.Process.Signal(syscall.SIGTERM)
	await(t, "the drain has begun", func() bool { return strings.Contains(run.stderr.String(), "reached drain.begun") })
	ended := make(chan int, 1)
	go func() { ended <- run.wait() }()
	await(t, "it stops", func() bool {
		_ = run.cmd.Process.Signal(syscall.SIGTERM)
		return len(ended) > 0
	})
	if code := <-ended; code != -1 {
		t.Errorf("the second signal waited for the drain: exit %d", code)
	}
	w.control(http.MethodDelete, "/faults", nil)
	w.finish(c)
}

// Nothing reads the log any more, as when journald restarts. The run continues, and SIGHUP makes it
// drain. Short commands end when their reader does.
func TestTrap74ARunOutlivesTheReadersOfItsOutput(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	outRead, out := pipe(t)
	errRead, errs := pipe(t)
	cmd := exec.Command(w.executable(), "run")
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = w.dir, append(os.Environ(), execVariable+"=1"), out, errs
	hangUp := make(chan os.Signal, 1)
	signal.Notify(hangUp, syscall.SIGHUP) // under nohup, the run would inherit that SIGHUP is ignored
	err := cmd.Start()
	signal.Stop(hangUp)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	defer time.AfterFunc(patience, func() { _ = cmd.Process.Kill() }).Stop()
	_, _ = out.Close(), errs.Close()
	var line daemon.ReadyLine
	if err := json.NewDecoder(outRead).Decode(&line); err != nil {
		t.Fatal(err)
	}
	_, _ = outRead.Close(), errRead.Close()
	w.mustCLI("account", "pause", "--by", "ada", "--reason", "a line of the log")
	w.readySays(line, "ada")
	w.mustCLI("account", "resume", "--by", "ada", "--reason", "another")
	w.readySays(line, ready)
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("SIGHUP did not drain it: %v", err)
	}

	outRead, out = pipe(t)
	_ = outRead.Close()
	short := exec.Command(w.executable(), "schema")
	short.Env, short.Stdout = append(os.Environ(), execVariable+"=1"), out
	_ = short.Run()
	if status, ok := short.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGPIPE {
		t.Errorf("a command whose output has no reader: %v", short.ProcessState)
	}
}

func pipe(t testing.TB) (read, write *os.File) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = read.Close(), write.Close() })
	return read, write
}
