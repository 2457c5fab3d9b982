// The metrics of a real run: they have Prometheus's format, and equal the books also after a kill.

package crashtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"perennial/cmd/perennial/internal/cli"
	"perennial/cmd/perennial/internal/daemon"
	"perennial/cmd/perennial/internal/verbs"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
)

type scraped struct {
	t    testing.TB
	text string
}

func (w *world) scrape(line daemon.ReadyLine) scraped {
	w.t.Helper()
	text, err := w.get(line.HTTP + "/metrics")
	if err != nil {
		w.t.Fatal(err)
	}
	return scraped{w.t, text}
}

// of returns a metric's value, or -1 if it is missing. The labels are those after account="main".
func (s scraped) of(name string, labels ...string) float64 {
	s.t.Helper()
	text := metricOf(s.text, fmt.Sprintf("perennial_%s{%s}", name, strings.Join(append([]string{`account="main"`}, labels...), ",")))
	if text == "" {
		return -1
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		s.t.Fatalf("%s is %q", name, text)
	}
	return value
}

// Charged, refused, repeated and left-out renewals show in the right metrics. The totals from the
// ledger continue after a kill.
func TestMetricsAgreeWithTheBooksOverAKill(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 8)
	w.configure("", `schedules:
  - {name: keep, cron: "0 0 1 1 *", renew_before: 300h, duration_days: 30, budget_cents: 300, match: {proxy_ids: [px_7, px_8]}}
`)
	run, line := w.run()
	begin := w.scrape(line)
	for name, labels := range map[string][]string{
		"charged_cents_total": {`kind="renewal"`}, "attempts_total": {`attempt="again"`}, "facts_total": {`type="renewal.partial"`},
		"rate_limited_seconds_total": nil, "event_seconds_count": {`kind="order"`},
	} {
		if got := begin.of(name, labels...); got != 0 {
			t.Errorf("%s is %v before anything happened", name, got)
		}
	}
	for _, name := range []string{ // alerts use the rate of each series, so that its first increase must count
		`provider_requests_total{account="main",code="insufficient_wallet_balance",outcome="refused",route="POST /api/v1/proxies/renew"}`,
		`provider_requests_total{account="main",code="other",outcome="refused",route="POST /api/v1/orders"}`,
		`provider_requests_total{account="main",code="none",outcome="unknown",route="GET /api/v1/proxies"}`,
		`sweep_left_out_total{account="main",reason="wallet",schedule="keep"}`,
	} {
		if got := metricOf(begin.text, "perennial_"+name); got != "0" {
			t.Errorf("%s is %q before anything happened", name, got)
		}
	}
	w.mustCLI("renew", "px_1", "--id", "r-1", "--wait")
	w.fault(map[string]any{"method": "POST", "path": "/api/v1/proxies/renew", "fault": "drop_after"})
	w.mustCLI("renew", "px_2", "--id", "r-2", "--wait")
	w.fault(map[string]any{"method": "POST", "path": "/api/v1/proxies/renew", "fault": "code", "code": "rate_limited", "http_status": 429, "retry_after": "1"})
	w.mustCLI("renew", "px_3", "--id", "r-3", "--wait")
	w.fault(map[string]any{"method": "POST", "path": "/api/v1/proxies/renew", "fault": "code", "code": "proxy_endpoint_unavailable"})
	w.cli("renew", "px_4", "--id", "r-4", "--wait")
	w.mustCLI("order", "--item", "off_us_1=2", "--id", "o-1", "--wait")
	w.cli("sweep", "run", "keep") // the budget leaves one out: exit 3

	var s scraped
	for name, want := range map[string]float64{
		`attempts_total{account="main",attempt="first"}`:                         6,
		`attempts_total{account="main",attempt="again"}`:                         2,
		`facts_total{account="main",type="command.accepted"}`:                    6,
		`reviews_opened_total{account="main",code="proxy_endpoint_unavailable"}`: 1,
		`reviews{account="main"}`:                                                1,
		`proxies_expiring{account="main",within="any"}`:                          10,
		`event_seconds_count{account="main",kind="order"}`:                       1,
		`settle_seconds_count{account="main",kind="renewal"}`:                    4,
		`commands_waiting{account="main"}`:                                       0,
		`unpublished_rows{account="main"}`:                                       0,
		`sweep_left_out_total{account="main",reason="budget",schedule="keep"}`:   1,
		`sweep_due{account="main",schedule="keep"}`:                              2,
		`sweep_planned_cents{account="main",schedule="keep"}`:                    300,
		`sweep_state{account="main",schedule="keep",state="finished"}`:           1,
		`turns_total{account="main"}`:                                            1,
	} {
		await(t, fmt.Sprintf("%s is %v", name, want), func() bool {
			s = w.scrape(line)
			return metricOf(s.text, "perennial_"+name) == strconv.FormatFloat(want, 'f', -1, 64)
		})
	}
	if got := s.of("rate_limited_seconds_total"); got <= 0 || got > 2 {
		t.Errorf("the provider asked to wait for a second, and %v are counted", got)
	}
	route := `route="POST /api/v1/proxies/renew"`
	for outcome, want := range map[string]float64{
		`code="none",outcome="unknown",` + route: 1, `code="proxy_endpoint_unavailable",outcome="refused",` + route: 1, `code="rate_limited",outcome="rate_limited",` + route: 1,
	} {
		if got := s.of("provider_requests_total", outcome); got != want {
			t.Errorf("requests with %s: %v", outcome, got)
		}
	}
	w.metricsAreTheBooks(s)
	w.metricsHaveTheForm(line)
	w.cli("ledger", "reconcile")
	compared := *decode[verbs.AccountView](t, w.mustCLI("account", "show", "-o", "json")).Reconciled.ProviderCents
	if s = w.scrape(line); compared <= 0 || int64(s.of("provider_wallet_cents")) != compared {
		t.Errorf("the provider's wallet is %v, and was read as %d", s.of("provider_wallet_cents"), compared)
	}
	var slot cli.SlotHistory
	if err := json.Unmarshal([]byte(w.mustCLI("sweep", "history", "keep", "-o", "json")), &slot); err != nil || slot.State != "finished" || slot.Due == nil || *slot.Due != 2 || *slot.EstimateCents != fact.Known(300) {
		t.Errorf("%+v %v", slot, err)
	}
	if _, errs, code := w.cli("sweep", "history", "nowhere"); code != cli.ExitFailed || !strings.Contains(errs, "has no run") {
		t.Errorf("exit %d: %s", code, errs)
	}

	run.kill()
	_, line = w.run()
	awaitReady(t, line)
	w.metricsAreTheBooks(w.scrape(line))
}

// metricsAreTheBooks compares the totals with `ledger balance`, to the cent.
func (w *world) metricsAreTheBooks(s scraped) {
	w.t.Helper()
	var b tables.Balance
	if err := json.Unmarshal([]byte(w.mustCLI("ledger", "balance", "-o", "json")), &b); err != nil {
		w.t.Fatal(err)
	}
	charged := s.of("charged_cents_total", `kind="order"`) + s.of("charged_cents_total", `kind="renewal"`)
	refunded := s.of("refunded_cents_total", `kind="order"`) + s.of("refunded_cents_total", `kind="renewal"`)
	if b.ChargedCents == 0 || int64(charged) != b.ChargedCents || int64(refunded) != b.RefundedCents ||
		int64(s.of("book_cents", `of="suspense"`)) != b.SuspenseCents || int64(s.of("spent_cents")) != b.ChargedCents-b.RefundedCents {
		w.t.Errorf("charged %v, refunded %v, spent %v; the books say %+v", charged, refunded, s.of("spent_cents"), b)
	}
	if left := s.of("runway_seconds"); left <= 0 {
		w.t.Errorf("the wallet lasts for %v s", left)
	}
}

// metricsHaveTheForm checks both text formats: promtool accepts help, units and types, no metric
// name contains an ID, and exemplars have trace IDs.
func (w *world) metricsHaveTheForm(line daemon.ReadyLine) {
	w.t.Helper()
	s := w.scrape(line)
	problems, err := promlint.New(strings.NewReader(s.text)).Lint()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, p := range problems {
		w.t.Errorf("%s: %s", p.Metric, p.Text)
	}
	if id := regexp.MustCompile(`="[^"]*(px_\d|r-\d|o-\d|trc_)`).FindString(s.text); id != "" {
		w.t.Errorf("a label holds an id: %s", id)
	}
	request, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, line.HTTP+"/metrics", nil)
	if err != nil {
		w.t.Fatal(err)
	}
	request.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil || !regexp.MustCompile(`perennial_provider_request_seconds_bucket\{[^}]*\} \d+ # \{trace_id="[^"]+"\}`).Match(text) {
		w.t.Errorf("no exemplar: %v", err)
	}
}

// Money that left the wallet at the provider's own site is not booked yet, but it can no longer pay
// for a renewal.
func TestTheRunwayIsNoLongerThanTheWallet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	_, line := w.run()
	awaitReady(t, line)
	w.mustCLI("renew", "px_1", "--id", "r-1", "--wait")
	w.reconciles(cli.ExitDone)
	long := w.scrape(line).of("runway_seconds")
	var b tables.Balance
	if err := json.Unmarshal([]byte(w.mustCLI("ledger", "balance", "-o", "json")), &b); err != nil {
		t.Fatal(err)
	}
	w.control("POST", "/wallet", fmt.Appendf(nil, `{"account_id":"acc_alpha","environment":"sandbox","add_cents":%d}`, 500-b.WalletCents))
	w.reconciles(cli.ExitFailed)
	await(t, "the runway is that of 5.00 USD", func() bool {
		return w.scrape(line).of("runway_seconds") < 2*24*3600
	})
	if long < 7*24*3600 {
		t.Errorf("%v seconds before", long)
	}
}
