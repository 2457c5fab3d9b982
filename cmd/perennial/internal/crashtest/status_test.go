package crashtest

import (
	"encoding/json"
	"strings"
	"testing"

	"perennial/cmd/perennial/internal/cli"
	"perennial/cmd/perennial/internal/verbs"
)

// `status` counts an operation that needs review, a waiting plan, dead letters, a paused account,
// and proxies in no schedule. Without a runner it shows what the ledger knows.
func TestStatusSaysWhatNeedsAPerson(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4)
	w.spoiled(&script{method: "POST", holds: `"px_3"`, steps: []spoil{{status: 422, body: failure("operation_failed", "words")}}})
	w.configure("", "schedules: [{name: dear, cron: '0 0 1 1 *', renew_before: 600h, duration_days: 30, approve_over_cents: 1, match: {proxy_ids: [px_1, px_2]}}]\n")
	run, line := w.run()
	awaitReady(t, line)
	w.mustCLI("renew", "px_1", "--id", "priced", "--wait")
	if _, errs, code := w.cli("renew", "px_3", "--id", "doubt", "--wait"); code != cli.ExitPerson {
		t.Fatalf("%d %s", code, errs)
	}
	if _, errs, code := w.cli("schedules", "run", "dear"); code != cli.ExitPerson {
		t.Fatalf("%d %s", code, errs)
	}
	// publish sends it twice.
	crashed{{id: "dead", subject: "perennial.commands.main.proxy.renew", body: []byte("{")}}.publish(t, line.NATS)
	w.mustCLI("accounts", "pause", "--reason", "the provider moves")
	glance := func() (v verbs.Summary) {
		out, errs, _ := w.cli("status", "--json")
		if err := json.Unmarshal([]byte(out), &v); err != nil {
			t.Fatalf("%s %s: %v", out, errs, err)
		}
		return v
	}
	await(t, "the dead letters are counted", func() bool { n := glance().Needs.DeadLetters; return n != nil && *n == 2 })
	v := glance()
	if n := v.Needs; n.Reviews != 1 || *n.Plans != 1 || n.Paused != 1 || *n.PausedSchedules != 0 || *n.Uncovered != 2 || n.Total != 7 {
		t.Errorf("%+v", n)
	}
	if v.Expiring == nil || v.Expiring.All != 4 || v.Role != "active" || v.Books.WalletCents == 0 || v.Books.Agree != nil && v.Books.ComparedAt == nil {
		t.Errorf("%+v", v)
	}
	out := w.mustCLI("status")
	for _, says := range []string{"7: 1 review (perennial reviews list), 1 plan to approve", "2 dead letters", "1 pause of the account", "2 proxies that no schedule renews", "doubt/0001"} {
		if !strings.Contains(out, says) {
			t.Errorf("%q is missing in\n%s", says, out)
		}
	}
	w.stopped(run)
	out, errs, code := w.cli("status")
	if code != cli.ExitUnreachable || !strings.Contains(errs, "perennial run") || !strings.Contains(out, "NOT READY: no runner answers") || !strings.Contains(out, "1 review") || !strings.Contains(out, "doubt/0001") ||
		!strings.Contains(out, "proxies in no schedule are not known without a runner") || !strings.Contains(out, "runway     not known without a runner") {
		t.Errorf("%d\n%s", code, out)
	}
	out, errs, code = w.cli("operations", "list")
	if code != cli.ExitUnreachable || !strings.Contains(errs, "perennial run") || !strings.Contains(out, "doubt/0001") {
		t.Errorf("without a runner the ledger's operations are not listed: %d\n%s%s", code, out, errs)
	}
	if v := glance(); v.Ready || v.Needs.Plans != nil || v.Needs.Reviews != 1 {
		t.Errorf("%+v", v)
	}
}

// Without a schedule, `status` says that nothing renews the proxies. After a restart it still shows
// the difference that was found before.
func TestStatusSaysWhatIsNotKnown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	run, line := w.run()
	awaitReady(t, line)
	if out := w.mustCLI("accounts", "show", "-o", "json"); !strings.Contains(out, `"ok":null`) || !strings.Contains(out, `"difference_cents":null,"provider_cents":null`) {
		t.Errorf("what was not compared is not null:\n%s", out)
	}
	await(t, "the proxies are listed", func() bool {
		out := w.mustCLI("status")
		return strings.Contains(out, "of 2; NO SCHEDULE RENEWS THEM")
	})
	if out := w.mustCLI("schedules", "forecast"); !strings.Contains(out, "no schedule is configured, so no renewal is planned") {
		t.Errorf("%s", out)
	}
	w.mustCLI("renew", "px_1", "--id", "known", "--wait")
	for flags, says := range map[string]string{"": "known was published before and is completed", "-o json": `"known_as":"completed"`} {
		if out := w.mustCLI(append([]string{"renew", "px_1", "--id", "known"}, strings.Fields(flags)...)...); !strings.Contains(out, says) {
			t.Errorf("%s", out)
		}
	}
	w.spends("300") // the wallet again holds what it held before the renewal
	if _, errs, code := w.cli("ledger", "reconcile", "-o", "json"); code != cli.ExitPerson || !strings.Contains(errs, "not compared: the provider's wallet is 3.00 USD off") {
		t.Errorf("%d %s", code, errs)
	}
	w.spends("-1000")
	if _, errs, code := w.cli("ledger", "reconcile"); code != cli.ExitFailed {
		t.Fatalf("%d %s", code, errs)
	}
	w.stopped(run)
	if out, _, _ := w.cli("status"); !strings.Contains(out, "DIFFERS from the provider") {
		t.Errorf("without a runner:\n%s", out)
	}
	if out, errs, _ := w.cli("status", "known"); !strings.Contains(out, "completed") || !strings.Contains(errs, "no runner answers: this is from the ledger") {
		t.Errorf("without a runner:\n%s%s", out, errs)
	}
	_, line = w.run()
	awaitReady(t, line)
	if out := w.mustCLI("status"); !strings.Contains(out, "DIFFERS from the provider") || !strings.Contains(out, "1 difference from the provider (perennial ledger reconcile)") {
		t.Errorf("after a restart:\n%s", out)
	}
}

// Corrected content under the ID of a refused command is a new command, and the command line says
// so. Otherwise a user would order again under another ID.
func TestAnIDIsFreeAfterARefusal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	_, line := w.run()
	awaitReady(t, line)
	nc, js := connectTo(t, line.NATS)
	defer nc.Close()
	_, err := js.Publish(t.Context(), "perennial.commands.main.order.create", []byte(`{"id":"typo","duration_days":30,"items":[{"offer_code":"off_us_1","quantity":"one"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	await(t, "it is refused", func() bool {
		out, _, _ := w.cli("status", "typo")
		return strings.Contains(out, "rejected")
	})
	if out := w.mustCLI("order", "off_us_1=1", "--id", "typo"); !strings.Contains(out, "published as typo") {
		t.Errorf("the corrected command:\n%s", out)
	}
	await(t, "it is delivered", func() bool { return strings.Contains(w.mustCLI("status", "typo"), "delivered") })
	if out := w.mustCLI("order", "off_us_1=1", "--id", "typo"); !strings.Contains(out, "typo was published before and is delivered: it is not done again") {
		t.Errorf("again:\n%s", out)
	}
	if _, errs, code := w.cli("order", "off_us_1=2", "--id", "typo"); code != cli.ExitFailed || !strings.Contains(errs, "published before with other content") {
		t.Errorf("exit %d with other content:\n%s", code, errs)
	}
}

// An operator's comparison uses the whole rate, so that the provider refuses it first.
func TestAComparisonWaitsOutARetryAfter(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	_, line := w.run()
	awaitReady(t, line)
	w.mustCLI("renew", "px_1", "--id", "one", "--wait")
	for _, path := range []string{"/api/v1/wallet", "/api/v1/orders"} {
		w.fault(map[string]any{"method": "GET", "path": path, "fault": "code", "code": "rate_limited", "http_status": 429, "retry_after": "1"})
	}
	if out, errs, code := w.cli("ledger", "reconcile"); code != cli.ExitDone {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
}
