//go:build check

// Webhooks over real sockets, from runners that are killed.

package crashtest

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"perennial/cmd/perennial/internal/cli"
	"perennial/cmd/perennial/internal/daemon"
	"perennial/ledger/testrun"
)

// The runner is killed repeatedly, and the endpoint fails at random and loses replies. Every event
// arrives in order, signed, and as it is on the stream.
func TestWebhooksGetEveryEventOverKills(t *testing.T) {
	t.Parallel()
	w, h := newWorld(t, 200), newHook(t)
	w.write("hook.secret", hookSecret+"\n", 0o600)
	w.configure("", h.config(", from: start"))
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, seed))
	h.behave(rand.New(rand.NewPCG(seed, 1)), 0)
	each := 24 // commands between two kills
	if testrun.Check {
		each = 10
	}
	all := load()[:120]
	for n := 0; n < len(all); n += each {
		run, line := w.run()
		all[n:n+each].publish(t, line.NATS)
		h.await(5 + random.IntN(40))
		run.kill()
	}
	h.behave(nil, 0)
	run, line := w.run()
	all.publish(t, line.NATS)
	all.await(t, line.NATS)
	h.hasAll(w)
	h.ordered()
	if code := run.terminate(); code != cli.ExitDone {
		t.Errorf("run ended with %d\n%s", code, run.stderr)
	}
	_, times := h.arrived()
	run, _ = w.run()
	h.await(1) // the events of the start
	w.stopped(run)
	for id, n := range times {
		if _, again := h.arrived(); again[id] != n {
			t.Errorf("%s arrived again behind a stop in good order", id)
		}
	}
	for _, secret := range []string{"h00k-t0ken", "whsec", hookSecret[6:]} {
		if strings.Contains(run.stderr.String(), secret) {
			t.Errorf("the log holds %s", secret)
		}
	}
}

// The next runner continues where the killed one was. An event whose delivery is recorded is not
// delivered again.
func TestAnotherRunnerGoesOnWithAWebhook(t *testing.T) {
	t.Parallel()
	p, h := newPair(t, 60), newHook(t)
	p.w.write("hook.secret", hookSecret, 0o600)
	p.w.configure(p.nats.url(), h.config(", from: start"))
	all := load()[:60]
	p.start(0, "")
	p.awaitRole(0, "active")
	p.start(1, "")
	p.awaitRole(1, "standby")
	all[:30].publish(t, p.nats.url())
	all[:30].await(t, p.nats.url())
	h.hasAll(p.w)
	stored := 0
	await(t, "the position is stored", func() bool {
		line := decode[struct{ Seq, Behind int }](t, p.w.mustCLI("webhook", "list", "-o", "json"))
		stored = line.Seq
		return line.Behind == 0 && line.Seq > 0
	})
	all[30:].publish(t, p.nats.url())
	h.await(20)
	p.runs[0].kill()
	p.awaitRole(1, "active")
	h.hasAll(p.w)
	h.ordered()
	_, times := h.arrived()
	for id, body := range h.bodies {
		if seq := decode[hooked](t, body).Data.Ledger.Seq; seq <= stored && times[id] > 1 {
			t.Errorf("event %d came %d times, and %d were stored as delivered", seq, times[id], stored)
		}
	}
	text, err := p.w.get(p.at[1].HTTP + "/metrics")
	if err != nil || metricOf(text, `perennial_webhook_behind_events{account="main",webhook="billing"}`) == "" || metricOf(text, `perennial_webhook_deliveries_total{account="main",outcome="delivered",webhook="billing"}`) == "0" {
		t.Errorf("%v\n%s", err, text)
	}
	if code := p.runs[1].terminate(); code != cli.ExitDone {
		t.Errorf("it ended with %d\n%s", code, p.runs[1].stderr)
	}
}

// The leader is stopped past its lease in the middle of deliveries. It continues while the new
// leader delivers too.
func TestTwoRunnersDeliverInOrder(t *testing.T) {
	t.Parallel()
	p, h := newPair(t, 60), newHook(t)
	p.w.write("hook.secret", hookSecret, 0o600)
	p.w.configure(p.nats.url(), h.config(", from: start"))
	all := load()[:40]
	p.start(0, "")
	p.awaitRole(0, "active")
	p.start(1, "")
	p.awaitRole(1, "standby")
	h.behave(rand.New(rand.NewPCG(1, 2)), 0)
	all[:20].publish(t, p.nats.url())
	h.await(20)
	_ = p.runs[0].cmd.Process.Signal(syscall.SIGSTOP)
	p.awaitRole(1, "active")
	all[20:].publish(t, p.nats.url())
	h.await(20)
	_ = p.runs[0].cmd.Process.Signal(syscall.SIGCONT)
	p.awaitRole(0, "standby")
	h.behave(nil, 0)
	h.hasAll(p.w)
	h.ordered()
}

// The rows stay until the webhook has delivered them, or is removed.
func TestAnArchiveKeepsWhatAWebhookHasNotDelivered(t *testing.T) {
	t.Parallel()
	w, h := oldWorld(t, ""), newHook(t)
	h.behave(nil, http.StatusServiceUnavailable)
	w.write("hook.secret", hookSecret, 0o600)
	w.configure("", h.config(", from: start"))
	held := func() {
		t.Helper()
		out := w.mustCLI(archiveArgs()...)
		state, _ := w.eventsState(nil)
		if !strings.Contains(out, "webhook billing has not delivered") || !strings.Contains(out, "perennial webhooks remove billing") || state.First != 1 {
			t.Errorf("%+v\n%s", state, out)
		}
	}
	held() // nothing is delivered yet
	run, _ := w.run()
	h.await(1)
	w.stopped(run)
	held()
	if out, errs, code := w.cli("webhook", "remove", "billing"); code != cli.ExitUsage || !strings.Contains(errs, "is configured") {
		t.Errorf("%d %s%s", code, out, errs)
	}
	w.configure("", "")
	held() // the webhook is no longer configured
	if out := w.mustCLI("webhook", "list", "-o", "json"); !strings.Contains(out, `"state":"removable"`) {
		t.Errorf("%s", out)
	}
	position := filepath.Join(w.dir, "data", "main.webhook.billing.json")
	if _, err := os.Stat(position); err != nil {
		t.Error(err)
	}
	w.mustCLI("webhook", "remove", "billing")
	if _, err := os.Stat(position); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a removed webhook keeps its place: %v", err)
	}
	if _, errs, code := w.cli("webhook", "remove", "billing"); code != cli.ExitFailed {
		t.Errorf("removed twice: %d %s", code, errs)
	}
	out := w.archiveOld()
	if state, _ := w.eventsState(nil); state.First < 400 || out.Events.HeldBy != "" {
		t.Errorf("%+v %+v", state, out.Events)
	}
}

// The embedded server has users, and the commands run with and without a runner. No output shows
// the URL's token or the secret.
func TestAnOperatorLooksAfterWebhooks(t *testing.T) {
	t.Parallel()
	w, h := newWorld(t, 10), newHook(t)
	w.write("hook.secret", hookSecret, 0o600)
	w.write("app.password", "app-password-123", 0o600)
	w.configure("", h.config(", from: start"))
	w.replace("perennial.yaml", "listen: 127.0.0.1:0}\nhttp", "listen: 127.0.0.1:0, users: [{user: app, password_file: app.password, roles: [{role: producer, accounts: [main]}]}]}\nhttp")
	var said strings.Builder
	do := func(want int, args ...string) string {
		t.Helper()
		out, errs, code := w.cli(args...)
		said.WriteString(out + errs)
		if code != want {
			t.Errorf("%v ended with %d\n%s%s", args, code, out, errs)
		}
		return out + errs
	}
	if out := do(cli.ExitDone, "webhook", "test", "billing", "-o", "json"); !strings.Contains(out, `"status":204`) {
		t.Errorf("%s", out)
	}
	run, line := w.run()
	awaitReady(t, line)
	do(cli.ExitDone, "renew", "px_1", "--id", "r-1", "--wait")
	end := 0
	await(t, "all is delivered", func() bool {
		state := decode[struct{ Seq, Behind int }](t, do(cli.ExitDone, "webhook", "list", "-o", "json"))
		end = state.Seq
		return state.Behind == 0 && state.Seq > 5
	})
	do(cli.ExitDone, "webhook", "replay", "billing", "--from-seq", "2", "--by", "ada", "--reason", "its database was restored")
	await(t, "it comes again", func() bool {
		_, times := h.arrived()
		twice := 0
		for id, n := range times {
			if seq := decode[hooked](t, h.bodies[id]).Data.Ledger.Seq; n == 2 && seq >= 2 && seq <= end {
				twice++
			}
			if n > 2 {
				t.Fatalf("%s came %d times", id, n)
			}
		}
		return twice == end-1
	})
	do(cli.ExitDone, "webhook", "replay", "billing", "--from-time", time.Now().Add(-time.Hour).UTC().Format(time.RFC3339))
	do(cli.ExitUsage, "webhook", "replay", "billing", "--from-seq", "1000000")
	do(cli.ExitUsage, "webhook", "replay", "billing")
	do(cli.ExitUsage, "webhook", "replay", "other", "--from-seq", "1")
	b := w.browser() // the pages offer the same actions
	form := formOf(t, b, line.HTTP+"/a/main/webhooks")
	onPage := func(what, want string, fields url.Values) {
		t.Helper()
		fields.Set("form", form)
		fields.Set("id", "billing")
		text, _, err := ask(b, line.HTTP+"/a/main/change/"+what, fields)
		if said.WriteString(text); err != nil || !strings.Contains(text, want) {
			t.Errorf("%s: %v\n%s", what, err, text)
		}
	}
	onPage("webhook-test", "delivered, ", url.Values{})
	onPage("webhook-replay", "delivers again from event 1 on", url.Values{"from": {"1"}, "reason": {"on the page"}})
	onPage("webhook-replay", "a replay only goes back", url.Values{"from": {"1000000"}, "reason": {"on the page"}})
	h.behave(nil, http.StatusTeapot)
	do(cli.ExitFailed, "webhook", "test", "billing")
	onPage("webhook-test", "Not done (send a test event)", url.Values{})
	do(cli.ExitDone, "config", "show")
	if out := do(cli.ExitDone, "doctor"); !strings.Contains(out, "webhook billing") {
		t.Errorf("%s", out)
	}
	await(t, "the log says who moved it", func() bool { return strings.Contains(run.stderr.String(), `"by":"ada"`) })
	h.behave(nil, http.StatusGone)
	do(cli.ExitDone, "renew", "px_2", "--id", "r-2", "--wait")
	await(t, "the log is loud", func() bool { return strings.Contains(run.stderr.String(), "the webhook is stopped") })
	await(t, "the list says it", func() bool { return strings.Contains(do(cli.ExitDone, "webhook", "list"), "stopped") })
	page, err := w.get(line.HTTP + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	w.stopped(run)
	h.behave(nil, 0)
	run, _ = w.run()
	await(t, "a new start goes on", func() bool { return strings.Contains(do(cli.ExitDone, "webhook", "list"), "delivering") })
	w.stopped(run)
	do(cli.ExitDone, "webhook", "list") // without a runner
	w.replace("perennial.yaml", h.config(", from: start"), "")
	run, _ = w.run()
	do(cli.ExitDone, "webhook", "remove", "billing")
	if out := do(cli.ExitDone, "webhook", "list", "-o", "json"); out != "" {
		t.Errorf("it is removed, and the list is %s", out)
	}
	w.stopped(run)
	for _, secret := range []string{"h00k-t0ken", "whsec", hookSecret[6:]} {
		if strings.Contains(said.String()+run.stderr.String()+page, secret) {
			t.Errorf("%s is said", secret)
		}
	}
}

func (w *world) replace(name, old, with string) {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join(w.dir, name))
	if err != nil || strings.Count(string(text), old) != 1 {
		w.t.Fatalf("%s: %v\n%s", name, err, text)
	}
	w.write(name, strings.Replace(string(text), old, with, 1), 0o600)
}

// The doctor, the log and the list report it, and nothing shows the secret or the URL.
func TestAWebhookThatCannotBeReadStopsItselfOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.configure("", "webhooks:\n  - {name: billing, url: \"https://example.com/h00k-t0ken\", secret_file: hook.secret}\n")
	for name, text := range map[string]string{"is there": "", "is a secret": "hunter2"} {
		if text != "" {
			w.write("hook.secret", text, 0o600)
		}
		if out, _, code := w.cli("doctor", "-o", "json"); code != cli.ExitFailed || !strings.Contains(out, `"check":"webhook billing","ok":false`) || strings.Contains(out, "hunter2") {
			t.Errorf("none %s: doctor: %d %s", name, code, out)
		}
		var line daemon.ReadyLine
		run := startIn(t, w.dir, nil, "run")
		run.ready(&line)
		w.mustCLI("order", "--item", "off_us_1=1", "--id", strings.ReplaceAll(name, " ", "-"), "--wait")
		var out string
		for limit := time.Now().Add(time.Minute); !strings.Contains(out, "webhook billing") && time.Now().Before(limit); {
			out = w.mustCLI("webhooks", "list", "-o", "json")
		}
		if !strings.Contains(out, `"state":"retrying"`) || strings.Contains(out, "hunter2") || strings.Contains(out, "h00k-t0ken") {
			t.Errorf("none %s: %s", name, out)
		}
		w.stopped(run)
	}
	var line daemon.ReadyLine
	run := startIn(t, w.dir, []string{"PERENNIAL_WEBHOOK_BILLING_SECRET=" + hookSecret}, "run")
	run.ready(&line)
	w.stopped(run)
}

// The restore lost the stream and events that the webhook had already delivered. Every event of the
// restored history still arrives.
func TestAWebhookFindsItsPlaceBehindARestore(t *testing.T) {
	t.Parallel()
	w, h := newWorld(t, 10), newHook(t)
	w.write("hook.secret", hookSecret, 0o600)
	w.configure("", h.config(", from: start"))
	run, _ := w.run()
	w.mustCLI("order", "--item", "off_us_1=2", "--id", "first", "--wait")
	w.mustCLI("ledger", "backup", "backup.db")
	h.hasAll(w)
	for n := range 9 {
		w.mustCLI("renew", fmt.Sprintf("px_%d", n+1), "--id", fmt.Sprintf("lost-%d", n), "--wait")
	}
	h.hasAll(w)
	w.stopped(run)
	_, before := h.arrived()
	streams, err := filepath.Glob(filepath.Join(w.dir, "data", "nats", "*", "*", "*", "PERENNIAL_EVENTS_main"))
	ledgers, globErr := filepath.Glob(w.ledgerFile() + "*")
	if err != nil || globErr != nil || len(streams) != 1 || len(ledgers) == 0 {
		t.Fatalf("%v %v: %v %v", streams, ledgers, err, globErr)
	}
	for _, path := range append(streams, ledgers...) {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
	w.mustCLI("ledger", "restore", "--from", "backup.db")
	run, _ = w.run()
	w.mustCLI("account", "resume", "--by", "ada", "--reason", "the renewals are ours")
	w.mustCLI("renew", "px_10", "--id", "after", "--wait")
	h.hasAll(w)
	await(t, "the log says it", func() bool {
		return strings.Contains(run.stderr.String(), "the account's history is another one after this event")
	})
	w.stopped(run)
	if _, after := h.arrived(); len(after) <= len(before) {
		t.Errorf("%d events arrived before and %d in all", len(before), len(after))
	}
}

// NATS lost the webhook's position with its streams. Undelivered events are delivered after the
// refill.
func TestAWebhookContinuesAfterItsStreamWasRefilled(t *testing.T) {
	t.Parallel()
	w, h := newWorld(t, 20), newHook(t)
	w.write("hook.secret", hookSecret, 0o600)
	w.configure("", h.config(", from: now"))
	run, line := w.run()
	awaitReady(t, line)
	w.mustCLI("renew", "px_1", "--id", "first", "--wait")
	ended := func(command string) bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, body := range h.bodies {
			if strings.Contains(body, `"command_id":"`+command+`"`) && strings.Contains(body, `command.finished`) {
				return true
			}
		}
		return false
	}
	await(t, "the first command's end arrives", func() bool { return ended("first") })
	before, _ := h.arrived()
	h.behave(nil, http.StatusInternalServerError)
	w.mustCLI("renew", "px_2", "--id", "second", "--wait")
	w.stopped(run)
	if err := os.RemoveAll(filepath.Join(w.dir, "data", "nats")); err != nil {
		t.Fatal(err)
	}
	h.behave(nil, 0)
	run, line = w.run("--refill-events")
	awaitReady(t, line)
	await(t, "the second command's end arrives", func() bool { return ended("second") })
	h.ordered()
	if _, times := h.arrived(); times[before[0]] != 1 {
		t.Errorf("the first event came %d times", times[before[0]])
	}
	w.stopped(run)
}
