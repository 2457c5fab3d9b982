//go:build check

package crashtest

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"perennial/cmd/perennial/internal/cli"
	"perennial/cmd/perennial/internal/daemon"
	"perennial/ledger/testrun"
	"perennial/queue"
)

// illness is one fault that stops work, and the outputs that must show it.
type illness struct {
	name  string
	begin func()
	end   func()
	check string // of /readyz?verbose and of the metrics
	says  string
	mute  bool // NATS is unreachable, so that no command is asked
	slow  bool // a faster fault covers the same check; this one runs in `make check` only
}

// /readyz in both forms, the metrics, `accounts show` and the log report the fault while nothing is
// sent, and all report its end.
func TestHealthShowsEveryFaultThatStopsWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 5)
	n := newNATSProcess(t, w)
	n.start("pw")
	w.configure(n.url(), "")
	run, line := w.run()
	w.readySays(line, ready)
	for _, ill := range w.illnesses(n) {
		if ill.slow && !testrun.Check {
			continue
		}
		ill.begin()
		w.readySays(line, ill.says)
		v := w.verbose(line)
		if v.Ready || v.Accounts[0].Ready || v.Accounts[0].Account != "main" || passes(v, ill.check) {
			t.Errorf("%s: /readyz?verbose says %+v", ill.name, v)
		}
		w.pageHas(line, "/metrics", `perennial_ready{account="main"} 0`, fmt.Sprintf(`perennial_check{account="main",check=%q} 0`, ill.check))
		if !ill.mute {
			if out, errs, _ := w.cli("account", "show", "-o", "json"); !strings.Contains(out, ill.says) {
				t.Errorf("%s: account show says %s%s", ill.name, out, errs)
			}
		}
		logged := func(text string) {
			await(t, ill.name+": the log says "+text, func() bool { return strings.Contains(run.stderr.String(), text) })
		}
		logged(fmt.Sprintf(`"check":%q`, ill.check))
		ill.end()
		w.readySays(line, ready)
		logged("works again: " + ill.check)
		if v = w.verbose(line); !v.Ready || !passes(v, ill.check) {
			t.Errorf("behind %s: /readyz?verbose says %+v", ill.name, v)
		}
	}
	if code := run.terminate(); code != cli.ExitDone {
		t.Errorf("exit %d\n%s", code, run.stderr)
	}
}

// The embedded server still answers after its files are removed, but stores nothing.
func TestHealthShowsThatTheFilesOfNATSAreGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	run, line := w.run()
	w.readySays(line, ready)
	if err := os.RemoveAll(filepath.Join(w.dir, "data", "nats")); err != nil {
		t.Fatal(err)
	}
	w.readySays(line, "the files of stream PERENNIAL_COMMANDS_main are gone")
	run.kill()
}

func (w *world) illnesses(n *natsProcess) []illness {
	fault := func(body map[string]any) func() {
		return func() {
			body["times"] = 100000
			w.fault(body)
		}
	}
	mend := func() { w.control(http.MethodDelete, "/faults", nil) }
	key := func(revoked bool) func() {
		return func() {
			w.control(http.MethodPost, "/keys", fmt.Appendf(nil, `{"app_id":%q,"revoked":%t}`, worldAppID, revoked))
		}
	}
	byHand := func(verb string) func() {
		return func() { w.cli("account", verb, "--by", "a test", "--reason", "to see") }
	}
	send := func(s syscall.Signal) func() { return func() { _ = n.cmd.Process.Signal(s) } }
	probe := filepath.Join(w.dir, "data", ".probe")
	return []illness{
		{name: "the provider is away", begin: fault(map[string]any{"fault": "drop_before"}), end: mend, check: "provider", says: "has not answered since"},
		{name: "the provider hangs", slow: true, begin: fault(map[string]any{"fault": "hang", "seconds": 600}), end: mend, check: "provider", says: "has not answered since"},
		{name: "the provider breaks", slow: true, begin: fault(map[string]any{"fault": "error_before"}), end: mend, check: "provider", says: "has not answered since"},
		{name: "the provider fails", slow: true, begin: fault(map[string]any{"fault": "code", "code": "internal_error", "http_status": 500}), end: mend, check: "provider", says: "the provider has served no request since"},
		{name: "a long Retry-After", begin: fault(map[string]any{"fault": "code", "code": "rate_limited", "http_status": 429, "retry_after": "3000"}),
			end: func() { mend(); byHand("resume")() }, check: "paused", says: "rate_limited"},
		{name: "the key is revoked", begin: key(true), end: key(false), check: "paused", says: "api_key_revoked"},
		{name: "a person has paused it", begin: byHand("pause"), end: byHand("resume"), check: "paused", says: "by a test: to see"},
		{name: "the disk takes nothing", check: "disk", says: "the disk cannot be written",
			begin: func() {
				await(w.t, "a directory stands where the probe is written", func() bool { _ = os.Remove(probe); return os.Mkdir(probe, 0o700) == nil })
			},
			end: func() { _ = os.Remove(probe) }},
		{name: "a consumer is paused", begin: w.administrator(n, pausedUntil(time.Now().Add(time.Hour))), end: w.administrator(n, pausedUntil(time.Now())), check: "streams", says: "nats consumer resume PERENNIAL_COMMANDS_main perennial-proxy-renew"},
		{name: "NATS is silent", begin: send(syscall.SIGSTOP), end: send(syscall.SIGCONT), check: "nats", says: "NATS at", mute: true},
		{name: "NATS is away", begin: n.kill, end: func() { n.start("pw") }, check: "nats", says: "is not connected", mute: true},
	}
}

// administrator changes a stream or a consumer as the `nats` command would.
func (w *world) administrator(n *natsProcess, change func(context.Context, jetstream.JetStream) error) func() {
	return func() {
		w.t.Helper()
		nc, js := connectTo(w.t, n.url())
		defer nc.Close()
		if err := change(w.t.Context(), js); err != nil {
			w.t.Error(err)
		}
	}
}

func pausedUntil(until time.Time) func(context.Context, jetstream.JetStream) error {
	return func(ctx context.Context, js jetstream.JetStream) error {
		_, err := js.PauseConsumer(ctx, queue.CommandsStream("main"), "perennial-proxy-renew", until)
		return err
	}
}

func (w *world) pageHas(line daemon.ReadyLine, path string, texts ...string) {
	w.t.Helper()
	page, err := w.get(line.HTTP + path)
	for _, text := range texts {
		if err != nil || !strings.Contains(page, text) {
			w.t.Errorf("%s does not say %s: %v", path, text, err)
		}
	}
}

// The doctor is what the runbook names first.
func TestTheDoctorSaysWhatTheRunningProcessLacks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	run, line := w.run()
	w.readySays(line, ready)
	if out, errs, code := w.cli("doctor"); code != cli.ExitDone || strings.Contains(out, "NOT OK") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	if err := os.RemoveAll(filepath.Join(w.dir, "data", "nats")); err != nil {
		t.Fatal(err)
	}
	w.readySays(line, "the files of stream PERENNIAL_COMMANDS_main are gone")
	if out, errs, code := w.cli("doctor"); code == cli.ExitDone || !strings.Contains(out, "the files of stream PERENNIAL_COMMANDS_main are gone") || strings.Contains(out, "another program listens") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	run.kill()
}
