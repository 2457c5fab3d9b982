package crashtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"perennial/cmd/perennial/internal/cli"
	"perennial/ledger/fact"
	"perennial/schedules/plans"
)

const yearly = `schedules:
  - name: keep
    cron: "0 0 1 1 *"
    renew_before: 300h
    duration_days: 30
    daily_budget_cents: 1200
    match: {protocol: [socks5], except_proxy_ids_file: keep-not.txt}
`

func (w *world) plan(args ...string) (p plans.Plan) {
	w.t.Helper()
	out, errs, code := w.cli(append([]string{"sweep"}, append(args, "-o", "json")...)...)
	want := cli.ExitDone
	err := json.Unmarshal([]byte(out), &p)
	if args[0] == "run" {
		want = sweepCode(p)
	}
	if err != nil || code != want {
		w.t.Fatalf("sweep %v: exit %d\n%s%s", args, code, out, errs)
	}
	return p
}

func included(p plans.Plan) (ids []string) {
	for _, x := range p.Included {
		ids = append(ids, x.ProxyID)
	}
	return ids
}

// The test plans and runs sweeps, and retires and restores proxies.
func TestSweepsFromTheCommandLine(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 6)
	w.write("keep-not.txt", "# too dear\npx_6\n", 0o600)
	w.configure("", yearly)
	w.run()
	if out, errs, code := w.cli("renew", "px_6", "--id", "price", "--wait"); code != 0 {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	first := w.plan("plan", "keep")
	if got := included(first); !slices.Equal(got, []string{"px_1", "px_2", "px_3", "px_4"}) {
		t.Fatalf("included %v, left out %v", got, first.LeftOut)
	}
	if first.WalletCents == nil || *first.WalletCents != 50_000_000-300 || *first.WalletAfterCents != *first.WalletCents-1200 ||
		first.Shortfalls[0].Reason != plans.ReasonDay || first.Included[0].PriceFrom != plans.PriceKind {
		t.Errorf("%+v", first)
	}
	if again := w.plan("plan", "keep"); again.Hash != first.Hash {
		t.Error("the same plan has another hash")
	}

	for _, c := range []struct {
		args, says string
		code       int
	}{
		{"proxies retire px_2 px_nowhere --by ada", "px_nowhere", cli.ExitFailed},
		{"proxies retire px_2 px_3 --by ada --reason moving", "schedules let 2 more proxies expire", 0},
		{"proxies retire px_2 --by ada", "nothing to change", 0},
		{"proxies show px_2", "It is not renewed: it was retired", 0},
		{"proxies retire px_3 --undo --by ada", "schedules renew 1 more proxy again", 0},
		{"proxies retire px_4 --by=", "needs a name", cli.ExitFailed},
	} {
		out, errs, code := w.cli(strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(out+errs, c.says) {
			t.Errorf("%s: exit %d\n%s%s", c.args, code, out, errs)
		}
	}
	if list := w.mustCLI("proxies", "list"); !strings.Contains(list, " · expected") || strings.Contains(list, "a long while ago") {
		t.Errorf("the list does not show the expiry that a renewal is expected to give:\n%s", list)
	}
	table, _, _ := w.cli("sweep", "plan", "keep")
	for _, text := range []string{"the wallet holds 499,997.00", "px_2", "it is retired", "price: " + plans.PriceKind} {
		if !strings.Contains(table, text) {
			t.Errorf("the table lacks %q:\n%s", text, table)
		}
	}
	out, errs, code := w.cli("sweep", "forecast", "keep", "--days", "20")
	if code != 0 || !strings.Contains(out, "pays for all of it") {
		t.Errorf("sweep forecast: exit %d\n%s%s", code, out, errs)
	}
	ran := w.plan("run", "keep")
	if got := included(ran); !slices.Equal(got, []string{"px_1", "px_3", "px_4", "px_5"}) || ran.State != "finished" {
		t.Errorf("%s: %v", ran.State, got)
	}
	list, _, _ := w.cli("sweep", "list", "-o", "json")
	if !strings.Contains(list, ` due, 4 to renew in 1 command, about 12.00 USD, asked for by `) {
		t.Errorf("sweep list: %s", list)
	}
}

// The test covers the failed renewal, the order for a replacement, and its delivery.
func TestAProxyThatIsNotRenewedIsReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.configure("", `schedules:
  - name: keep
    cron: "0 0 1 1 *"
    renew_before: 300h
    duration_days: 30
    replace: {enabled: true, max_cents: 300, after: 1}
`)
	_, line := w.run()
	w.fault(map[string]any{"method": "POST", "path": "/api/v1/proxies/renew", "fault": "renewal", "failed": 1})
	first := w.plan("run", "keep")
	var command struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(first.Commands[0], &command); err != nil {
		t.Fatal(err)
	}
	waitForEvent(t, line.NATS, "renewal.failed", command.ID)
	if _, errs, code := w.cli("sweep", "run", "keep"); code != cli.ExitDone {
		t.Errorf("exit %d\n%s", code, errs)
	}
	second := w.plan("plan", "keep")
	if len(second.Included) != 0 || second.LeftOutCounts[plans.ReasonRetired] != 1 {
		t.Errorf("included %v, left out %v", second.Included, second.LeftOutCounts)
	}
	var replaced fact.ProxyReplaced
	for _, r := range w.journal(t) {
		if r.Type != "proxy.replaced" {
			continue
		}
		if err := json.Unmarshal([]byte(r.Data), &replaced); err != nil {
			t.Fatal(err)
		}
	}
	delivered := waitForEvent(t, line.NATS, "order.delivered", replaced.CommandID)
	if replaced.ProxyID != "px_1" || !strings.Contains(delivered, `"replaces":"px_1"`) || !strings.Contains(delivered, `"charged_cents":300`) {
		t.Errorf("%+v became %s", replaced, delivered)
	}
}

// A key without proxies:read can order, but not sweep.
func TestTrap55ASweepThatCannotBeMadeIsNotReady(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.fault(map[string]any{"method": "GET", "path": "/api/v1/proxies", "fault": "code", "code": "insufficient_scope", "http_status": 403, "times": 1_000_000})
	w.configure("", `schedules:
  - name: keep
    cron: "@every 2s"
    renew_before: 300h
    duration_days: 30
`)
	_, line := w.run()
	waitForHTTP(t, line.HTTP+"/readyz", "schedule keep: the run of ")
	waitForHTTP(t, line.HTTP+"/metrics", `perennial_sweep_failed{account="main",schedule="keep"} 1`)
	waitForEvent(t, line.NATS, "sweep.failed", "")
	for _, args := range []string{"sweep list", "status"} {
		out, errs, code := w.cli(strings.Fields(args)...)
		if code != 0 || !strings.Contains(out+errs, "NOT MADE: ") {
			t.Errorf("%s: exit %d\n%s%s", args, code, out, errs)
		}
	}
	w.control(http.MethodDelete, "/faults", nil)
	waitForHTTP(t, line.HTTP+"/readyz", "ok\n")
}

// The exit code tells a cron script that nothing was renewed.
func TestASweepThatNeedsAPersonOrMoneyFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4)
	const schedule = "  - {name: %s, cron: '0 0 1 1 *', renew_before: 300h, duration_days: 30, match: {proxy_ids: [%s]}%s}\n"
	w.configure("", "schedules:\n"+fmt.Sprintf(schedule, "ask", "px_1", ", approve_over_cents: 1")+
		fmt.Sprintf(schedule, "some", "px_2, px_3", ", budget_cents: 500")+fmt.Sprintf(schedule, "none", "px_2", ", daily_budget_cents: 1")+fmt.Sprintf(schedule, "all", "px_4", ""))
	w.run()
	for args, says := range map[string]string{ // offers give a price before any renewal is paid; the budget does not use it
		"renew px_1 --dry-run":          "1 command, list price 3.00 USD, no renewal paid yet; nothing was published",
		"schedules plan some":           "1 to renew in 1 command, about list price 3.00 USD, no renewal paid yet",
		"schedules forecast --days 366": ", no renewal paid yet; the wallet holds 500,000.00 USD and pays for all of it",
	} {
		if out := w.mustCLI(strings.Fields(args)...); !strings.Contains(out, says) {
			t.Errorf("%s lacks %q:\n%s", args, says, out)
		}
	}
	w.mustCLI("renew", "px_4", "--id", "price", "--wait")
	for _, c := range []struct {
		schedule string
		code     int
		says     string
	}{
		{"ask", cli.ExitPerson, "it exceeds approve_over_cents (0.01 USD): approve it with `perennial schedules approve "}, {"none", cli.ExitPartly, "daily_budget_cents (0.01 USD): 1 proxy skipped"},
		{"some", cli.ExitPartly, "budget_cents (5.00 USD): 1 proxy skipped, 1.00 USD short"}, {"all", cli.ExitDone, "0 to renew"}, {"all", cli.ExitDone, "0 to renew"},
	} {
		for _, output := range []string{"json", "table"} { // both within the same second
			if c.schedule == "some" && output == "json" {
				continue // a second run would find these commands in progress
			}
			out, errs, code := w.cli("sweep", "run", c.schedule, "-o", output)
			if code != c.code || output == "table" && !strings.Contains(out, c.says) {
				t.Errorf("%s: exit %d\n%s%s", c.schedule, code, out, errs)
			}
		}
	}
	await(t, "the history tells a budget stop from success", func() bool {
		out := w.mustCLI("sweep", "history", "some")
		return strings.Contains(out, "1.00 USD short") && strings.Contains(strings.Join(strings.Fields(out), " "), " over budget 2 1 1 3.00 USD ")
	})
	list := strings.Join(strings.Fields(w.mustCLI("sweep", "list")), " ")
	for _, says := range []string{" STATE DUE RENEWED SKIPPED CHARGED ", " over budget 2 1 1 3.00 USD ", " over budget 1 0 1 0.00 USD ", " needs approval 1 0 0 0.00 USD "} {
		if !strings.Contains(list, says) {
			t.Errorf("the list lacks %q:\n%s", says, list)
		}
	}
	if facts := w.mustCLI("events", "--stored", "--type", "sweep.finished", "-o", "json"); !strings.Contains(facts, `"over_limit":1`) {
		t.Errorf("no sweep.finished says that a budget left proxies out")
	}
	if out := w.mustCLI("status"); !strings.Contains(out, "skipped for a budget or the wallet (perennial schedules history some --skipped)") {
		t.Errorf("status does not count what a budget skipped:\n%s", out)
	}
}

func TestAnApprovalNeedsANameAndSaysIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.configure("", `schedules:
  - name: keep
    cron: "0 0 1 1 *"
    renew_before: 300h
    duration_days: 30
    approve_over_cents: 1
`)
	w.run()
	if out, errs, code := w.cli("renew", "px_1", "--id", "price", "--wait"); code != 0 {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	held := w.plan("run", "keep")
	if held.State != "held" || !held.NeedsApproval {
		t.Fatalf("%+v", held)
	}
	for _, args := range [][]string{{"--by="}, {"--reason="}, {"--by", " "}} {
		out, errs, code := w.cli(append([]string{"sweep", "approve", held.Hash}, args...)...)
		if code != cli.ExitFailed || !strings.Contains(errs, "needs a name and a reason") {
			t.Errorf("%v: exit %d\n%s%s", args, code, out, errs)
		}
	}
	if out := w.mustCLI("sweep", "approve", held.Hash, "--by", "ada"); !strings.Contains(out, " of keep: 1 renewal published, about 3.00 USD; ") {
		t.Errorf("what was approved is not said:\n%s", out)
	}
	for _, r := range w.journal(t) {
		if r.Type == "sweep.finished" && strings.Contains(r.Data, `"by":"ada","reason":"approved on the command line"`) {
			return
		}
	}
	t.Error("no fact says who approved it")
}
