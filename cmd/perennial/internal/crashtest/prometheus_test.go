//go:build check

package crashtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.yaml.in/yaml/v3"

	"perennial/cmd/perennial/internal/daemon"
)

// documents is the directory of the alerts and the dashboard.
const documents = "../../../../docs/operations"

// A real Prometheus scrapes a run in which every alerted state occurs. It loads the rules, has a
// series for each of their selectors, and answers every query of the dashboard.
func TestPrometheusFindsWhatAlertsAndDashboardAskFor(t *testing.T) {
	t.Parallel()
	w, h := newWorld(t, 8), newHook(t)
	w.write("hook.secret", hookSecret, 0o600)
	w.write("broken.txt", "px_6\n", 0o600)
	w.configure("", `schedules:
  - {name: keep, cron: "0 0 1 1 *", renew_before: 300h, duration_days: 30, budget_cents: 300, match: {proxy_ids: [px_7, px_8]}}
  - {name: dear, cron: "0 0 1 1 *", renew_before: 300h, duration_days: 30, approve_over_cents: 1, match: {proxy_ids: [px_5]}}
  - {name: broken, cron: "@every 2s", renew_before: 1h, duration_days: 30, match: {proxy_ids_file: broken.txt}}
`+h.config(", from: start"))
	_, line := w.run()
	awaitReady(t, line)
	p := w.prometheus(line)
	w.everythingHappens(p)

	for _, selector := range alertSelectors(t) {
		p.awaitSeries("last_over_time(" + selector + "[10m])")
	}
	for _, query := range dashboardQueries(t) {
		p.awaitSeries(query)
	}
	if text := p.get("/api/v1/rules"); !strings.Contains(text, "PerennialReviewWaits") || strings.Contains(text, `"health":"err"`) {
		t.Errorf("%s", text)
	}
	page, err := w.get(line.HTTP + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	check := exec.CommandContext(t.Context(), "promtool", "check", "metrics")
	check.Stdin = strings.NewReader(page)
	if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}

// everythingHappens brings about every state that an alert or a metric reports.
func (w *world) everythingHappens(p *prometheusProcess) {
	renew := map[string]any{"method": "POST", "path": "/api/v1/proxies/renew"}
	fault := func(more map[string]any) {
		maps.Copy(more, renew)
		w.fault(more)
	}
	w.mustCLI("renew", "px_1", "--id", "r-1", "--wait")
	fault(map[string]any{"fault": "drop_after", "times": 6})
	w.mustCLI("renew", "px_2", "--id", "r-2")
	p.awaitSeries(`last_over_time(perennial_ambiguous_window_seconds[10m])`)
	fault(map[string]any{"fault": "code", "code": "rate_limited", "http_status": 429, "retry_after": "3"})
	w.mustCLI("renew", "px_3", "--id", "r-3")
	p.awaitSeries(`last_over_time(perennial_paused{cause="rate_limited"}[10m])`)
	for _, id := range []string{"r-2", "r-3"} {
		await(w.t, id+" is completed", func() bool {
			out, _, code := w.cli("status", id)
			return code == 0 && strings.Contains(out, "completed")
		})
	}
	fault(map[string]any{"fault": "code", "code": "proxy_endpoint_unavailable"})
	w.cli("renew", "px_4", "--id", "r-4", "--wait")
	w.mustCLI("order", "--item", "off_us_1=2", "--id", "o-1", "--wait")
	w.cli("sweep", "run", "keep")
	w.cli("sweep", "run", "dear")
	w.mustCLI("schedules", "pause", "dear", "--until", "8h", "--reason", "to be seen")
	w.cli("ledger", "reconcile")
	w.mustCLI("ledger", "backup", "backup.db")
	w.mustCLI("account", "pause", "--reason", "to be seen")
	p.awaitSeries(`last_over_time(perennial_paused{cause="person"}[10m])`)
	w.mustCLI("account", "resume", "--reason", "it was seen")
	if err := os.Remove(filepath.Join(w.dir, "broken.txt")); err != nil { // last: commands cannot read the configuration without the file
		w.t.Fatal(err)
	}
}

// alertSelectors returns the series that the rules read, without duplicates.
func alertSelectors(t testing.TB) (all []string) {
	var file struct {
		Groups []struct{ Rules []struct{ Expr string } }
	}
	text, err := os.ReadFile(filepath.Join(documents, "alerts.yaml"))
	if err == nil {
		err = yaml.Unmarshal(text, &file)
	}
	if err != nil {
		t.Fatal(err)
	}
	selector := regexp.MustCompile(`\b(?:perennial|process)_[a-z0-9_]+(?:\{[^}]*\})?`)
	for _, r := range file.Groups[0].Rules {
		all = append(all, selector.FindAllString(r.Expr, -1)...)
	}
	slices.Sort(all)
	if all = slices.Compact(all); len(all) < 25 {
		t.Fatalf("selectors: %v", all)
	}
	return all
}

// dashboardQueries returns the dashboard's queries for all accounts.
func dashboardQueries(t testing.TB) (all []string) {
	var file struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	text, err := os.ReadFile(filepath.Join(documents, "grafana.json"))
	if err == nil {
		err = json.Unmarshal(text, &file)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, panel := range file.Panels {
		for _, target := range panel.Targets {
			all = append(all, strings.ReplaceAll(target.Expr, "$account", ".*"))
		}
	}
	if len(all) < 30 {
		t.Fatalf("%d queries", len(all))
	}
	return all
}

type prometheusProcess struct {
	w    *world
	addr string
}

// prometheus starts a Prometheus with the rules that scrapes a run every second. It ends with the
// test.
func (w *world) prometheus(line daemon.ReadyLine) *prometheusProcess {
	w.t.Helper()
	at, err := url.Parse(line.HTTP)
	if err != nil {
		w.t.Fatal(err)
	}
	rules, err := filepath.Abs(filepath.Join(documents, "alerts.yaml"))
	if err != nil {
		w.t.Fatal(err)
	}
	w.write("prometheus.yaml", fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%q]\nscrape_configs:\n  - job_name: perennial\n    static_configs: [{targets: [%q]}]\n", rules, at.Host), 0o600)
	p := &prometheusProcess{w: w, addr: freeAddress(w.t)}
	cmd := exec.CommandContext(w.t.Context(), "prometheus", "--config.file", "prometheus.yaml", "--storage.tsdb.path", "prometheus", "--web.listen-address", p.addr, "--log.level", "error")
	log := &lockedBuffer{}
	cmd.Dir, cmd.Stdout, cmd.Stderr = w.dir, log, log
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGKILL)
		_ = cmd.Wait()
		if w.t.Failed() {
			w.t.Logf("prometheus: %s", log)
		}
	})
	await(w.t, "Prometheus is ready", func() bool {
		text, err := w.get("http://" + p.addr + "/-/ready")
		return err == nil && strings.Contains(text, "Ready")
	})
	return p
}

func (p *prometheusProcess) get(path string) string {
	text, err := p.w.get("http://" + p.addr + path)
	if err != nil {
		return err.Error()
	}
	return text
}

// awaitSeries waits until a query returns a series.
func (p *prometheusProcess) awaitSeries(query string) {
	p.w.t.Helper()
	await(p.w.t, query+" has a series", func() bool {
		var answer struct {
			Status, Error string
			Data          struct{ Result []json.RawMessage }
		}
		text := p.get("/api/v1/query?query=" + url.QueryEscape(query))
		if err := json.Unmarshal([]byte(text), &answer); err != nil || answer.Status != "success" {
			p.w.t.Fatalf("%s: %s", query, text)
		}
		return len(answer.Data.Result) > 0
	})
}
