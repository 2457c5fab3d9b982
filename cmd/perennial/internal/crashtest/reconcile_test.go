package crashtest

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"perennial/cmd/perennial/internal/cli"
	"perennial/jobs/inspect"
	"perennial/jobs/reconcile"
)

// spends makes the provider's own site spend cents, or top up if negative.
func (w *world) spends(cents string) {
	w.t.Helper()
	w.control(http.MethodPost, "/wallet", []byte(`{"account_id":"acc_alpha","environment":"sandbox","add_cents":`+cents+`}`))
}

func (w *world) reconciles(wantCode int) reconcile.Reconciliation {
	w.t.Helper()
	out, errs, code := w.cli("ledger", "reconcile", "-o", "json")
	var x reconcile.Reconciliation
	if err := json.Unmarshal([]byte(out), &x); err != nil || code != wantCode || x.Agrees() != (code == 0) {
		w.t.Fatalf("exit %d, want %d: %v\n%s%s", code, wantCode, err, out, errs)
	}
	return x
}

// A difference is found, left uncorrected, recorded, and then reconciled, with and without a
// runner.
func TestTrap24OnTheCommandLine(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	p, line := w.run()
	if out, errs, code := w.cli("renew", "px_1", "--id", "keep", "--wait"); code != 0 {
		t.Fatalf("%s%s", out, errs)
	}
	if x := w.reconciles(0); !x.Quiet || len(x.Findings) != 0 {
		t.Errorf("%+v", x)
	}
	w.spends("-450")
	if x := w.reconciles(1); len(x.Findings) != 1 || x.Findings[0].Kind != "wallet" || x.Findings[0].AmountCents != -450 {
		t.Errorf("%+v", x)
	}
	if e := waitForEvent(t, line.NATS, "ledger.discrepancy", ""); !strings.Contains(e, `"amount_cents":-450`) {
		t.Errorf("%s", e)
	}
	if out, _, code := w.cli("ledger", "reconcile"); code != 1 || !strings.Contains(out, "-4.50") {
		t.Errorf("exit %d\n%s", code, out)
	}
	page, err := w.get(line.HTTP + "/metrics")
	if err != nil || !strings.Contains(page, `perennial_reconciled_ok{account="main"} 0`) || !strings.Contains(page, `perennial_reconciled_difference_cents{account="main"} -450`) ||
		!strings.Contains(page, "perennial_reconciled_timestamp_seconds{") {
		t.Errorf("%v\n%s", err, page)
	}
	if out, _, _ := w.cli("account", "show"); !strings.Contains(out, "1 finding, the wallet is -4.50 USD off") {
		t.Errorf("%s", out)
	}
	if page, err := w.page(line, "/"); err != nil || !strings.Contains(page, "1 finding, the wallet is -4.50 USD off") {
		t.Errorf("%v\n%s", err, page)
	}
	if page, err := w.get(line.HTTP + "/readyz"); err != nil || page != "ok\n" {
		t.Errorf("%q %v: a finding does not stop the account", page, err)
	}
	if out, errs, code := w.cli("ledger", "record", "--kind", "external", "--cents", "450", "--by", "ada", "--reason", "bought by hand"); code != 0 {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	w.reconciles(0)
	if code := p.terminate(); code != 0 {
		t.Fatalf("run ended with %d", code)
	}
	w.spends("1000")
	if x := w.reconciles(1); x.Findings[0].AmountCents != 1000 || !strings.Contains(strings.Join(x.Notes, " "), "one moment") {
		t.Errorf("%+v", x)
	}
	if out, errs, code := w.cli("ledger", "record", "--kind", "top-up", "--cents", "1000", "--by", "ada", "--reason", "by card", "-o", "json"); code != 0 || !strings.Contains(out, `{"changed":1,"record":{"seq":`) {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	w.reconciles(0)
	over := []string{"ledger", "record", "--kind", "external", "--cents", "90000000", "--by", "ada", "--reason", "before its top-up"}
	if out, errs, code := w.cli(over...); code != 0 || !strings.Contains(out, "recorded: external") || !strings.Contains(errs, "warning: the book's wallet is -") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	if out, _, code := w.cli(append(over, "--id", "again", "-o", "json")...); code != 0 || !strings.Contains(out, `{"changed":1,"warning":"the book's wallet is -`) {
		t.Errorf("exit %d\n%s", code, out)
	}
	if _, errs, code := w.cli(over...); code != cli.ExitUsage || !strings.Contains(errs, "--id") {
		t.Errorf("the same once more: exit %d\n%s", code, errs)
	}
	if out, _, code := w.cli("ledger", "verify"); code != 0 {
		t.Errorf("exit %d\n%s", code, out)
	}
}

// The repeated record is reported as such with and without a runner.
func TestARepeatedRecordSaysThatNothingWasBooked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	run, _ := w.run()
	record := func(cents string, more ...string) (string, string, int) {
		return w.cli(append([]string{"ledger", "record", "--kind", "top-up", "--by", "ada", "--reason", "wire", "--id", "wire-7", "--cents", cents}, more...)...)
	}
	if out, errs, code := record("5.00"); code != cli.ExitDone || !strings.HasPrefix(out, "recorded: top-up 5.00 USD") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	for _, runs := range []bool{true, false} {
		if out, errs, code := record("500"); code != cli.ExitDone || out != "was recorded before under this id, and is not booked again: top-up 5.00 USD\n" {
			t.Errorf("runner %t: exit %d\n%s%s", runs, code, out, errs)
		}
		if out, _, _ := record("500", "-o", "json"); !strings.HasPrefix(out, `{"changed":0,"record":{"seq":`) {
			t.Errorf("runner %t: %s", runs, out)
		}
		if _, errs, code := record("600"); code != cli.ExitFailed || !strings.Contains(errs, "choose another") || strings.Contains(errs, "the same command with") {
			t.Errorf("runner %t: exit %d\n%s", runs, code, errs)
		}
		run.terminate()
	}
}

// The reversal of spending is booked as a top-up, although no money was put into the wallet.
func TestAReversalOfSpendingIsCalledSpending(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.run()
	record := func(args ...string) string {
		return w.mustCLI(append([]string{"ledger", "record", "--by", "ada", "--reason", "a slip"}, args...)...)
	}
	takeBack := func(out string) string {
		_, row, _ := strings.Cut(out, "--corrects ")
		row, _, _ = strings.Cut(row, " ")
		return record("--corrects", row)
	}
	back := takeBack(record("--kind", "external", "--cents", "9.98"))
	if !strings.HasPrefix(back, "taken back: external 9.98 USD") {
		t.Errorf("%q", back)
	}
	if again := takeBack(back); !strings.HasPrefix(again, "recorded: external 9.98 USD") {
		t.Errorf("%q", again)
	}
	if log := w.mustCLI("audit"); !strings.Contains(log, "took back: external 9.98 USD") {
		t.Error(log)
	}
}

// The sums of a label and of orders exclude refused commands.
func TestWhatWasRefusedBoughtNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	run, _ := w.run()
	w.mustCLI("order", "--item", "off_us_1=2", "--id", "good", "--label", "team=red", "--wait")
	if _, _, code := w.cli("order", "--item", "off_nowhere=2", "--id", "bad", "--label", "team=red", "--wait"); code != cli.ExitFailed {
		t.Errorf("exit %d", code)
	}
	w.settled(run, "good", "bad")
	for by, heading := range map[string]string{"order": "PROXIES", "renewal": "PROXIES", "ip": "RENEWALS", "label": "COMMANDS", "day": "CHARGES"} {
		if out := w.mustCLI("ledger", "balance", "--by", by); !strings.Contains(out, heading) || strings.Contains(out, "COUNT") {
			t.Errorf("%s:\n%s", by, out)
		}
	}
	if out := w.mustCLI("ledger", "balance", "--by", "label", "-o", "json"); !strings.Contains(out, `"subject":"team=red","count":1,`) {
		t.Error(out)
	}
	if out := w.mustCLI("ledger", "balance", "--by", "order", "-o", "json"); !strings.Contains(out, `"subject":"bad/1","count":0,`) {
		t.Error(out)
	}
}

func TestReconcileSaysThatNoServerAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	p, _ := w.run()
	w.fault(map[string]any{"method": "GET", "path": "/api/v1/wallet", "fault": "error_before", "times": 1000})
	if _, errs, code := w.cli("ledger", "reconcile"); code != cli.ExitUnreachable || !strings.Contains(errs, "provider") {
		t.Errorf("exit %d: %s", code, errs)
	}
	p.terminate()
	if _, errs, code := w.cli("ledger", "reconcile"); code != cli.ExitUnreachable || !strings.Contains(errs, "no `perennial run` answers") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// The output includes what the provider knows.
func TestReviewShowsWhatIsKnownWithAndWithoutARunner(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	p, _ := w.run()
	w.fault(map[string]any{"method": "POST", "path": "/api/v1/orders", "fault": "unresolved_record", "executed": true})
	if out, errs, code := w.cli("order", "--item", "off_us_1=2", "--id", "buy", "--wait"); code != cli.ExitPerson {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	var e inspect.Evidence
	out, errs, code := w.cli("review", "show", "buy/1", "-o", "json")
	if err := json.Unmarshal([]byte(out), &e); err != nil || code != 0 || len(e.Orders) != 1 || e.Orders[0].NetCents.Or(0) != 600 || len(e.Answers) != 3 {
		t.Errorf("exit %d %v\n%s%s", code, err, out, errs)
	}
	if out, _, code := w.cli("review", "show", "buy/1"); code != 0 || !strings.Contains(out, "idempotency_unresolved") || !strings.Contains(out, "charge 6.00 USD from wallet to orders") {
		t.Errorf("exit %d\n%s", code, out)
	}
	if out, _, _ := w.cli("review", "list"); !strings.Contains(out, "EXPOSURE") || !strings.Contains(out, "unknown") {
		t.Errorf("%s", out)
	}
	if _, _, code := w.cli("review", "show", "nothing"); code != cli.ExitFailed {
		t.Errorf("exit %d", code)
	}
	p.terminate()
	if out, _, code := w.cli("review", "show", "buy/1"); code != 0 || !strings.Contains(out, "ledger alone") {
		t.Errorf("exit %d\n%s", code, out)
	}
}

func TestRecordRefusesWhatCannotBeBooked(t *testing.T) {
	t.Parallel()
	w := &world{t: t, dir: t.TempDir()}
	for _, args := range [][]string{
		{"--kind", "gift", "--cents", "1", "--by", "a", "--reason", "b"}, {"--kind", "top-up", "--cents", "0", "--by", "a", "--reason", "b"},
		{"--kind", "top-up", "--cents", "-5", "--by", "a", "--reason", "b"}, {"--kind", "top-up", "--cents", "5", "--by", "", "--reason", "b"},
		{"--kind", "top-up", "--cents", "5", "--by", "a"}, {"--kind", "external", "--cents", "1.5", "--by", "a", "--reason", "b"},
	} {
		if _, errs, code := w.cli(append([]string{"ledger", "record"}, args...)...); code != cli.ExitUsage {
			t.Errorf("%v: exit %d: %s", args, code, errs)
		}
	}
	if _, errs, code := w.cli("ledger", "record", "--kind", "top-up", "--cents", "5", "--by", "a", "--reason", "b"); code == 0 || !strings.Contains(errs, "no ledger") {
		t.Errorf("exit %d: %s", code, errs)
	}
}
