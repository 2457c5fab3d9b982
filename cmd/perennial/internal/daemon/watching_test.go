package daemon

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"perennial/jobs/decide"
	"perennial/ledger"
)

// documents is the directory of the alerts, the dashboard and the runbook.
const documents = "../../../../docs"

func document(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(documents, name))
	must(t, err)
	return string(text)
}

// alerts returns the rules of docs/operations/alerts.yaml.
func alerts(t *testing.T) (all []struct{ Alert, Expr, URL string }) {
	t.Helper()
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Annotations struct {
					URL string `yaml:"runbook_url"`
				}
			}
		}
	}
	must(t, yaml.Unmarshal([]byte(document(t, "operations/alerts.yaml")), &file))
	for _, r := range file.Groups[0].Rules {
		all = append(all, struct{ Alert, Expr, URL string }{r.Alert, r.Expr, r.Annotations.URL})
	}
	if len(all) < 20 {
		t.Fatalf("%d alerts", len(all))
	}
	return all
}

// Each alert is in alerts_test.yaml, and in the runbook with all of its four parts. The runbook has
// no entry without an alert.
func TestEachAlertHasATestAndAnEntry(t *testing.T) {
	tests, runbook := document(t, "operations/alerts_test.yaml"), document(t, "runbook.md")
	entries := strings.Split(runbook, "\n## ")[1:]
	var named []string
	for _, entry := range entries {
		name, text, _ := strings.Cut(entry, "\n")
		named = append(named, name)
		for _, part := range []string{"**Means.** ", "**Look at.** ", "**Do.** ", "**Do not.** "} {
			if strings.Count(text, part) != 1 {
				t.Errorf("the runbook's %s has no %s", name, part)
			}
		}
	}
	for _, a := range alerts(t) {
		if !slices.Contains(named, a.Alert) || a.URL != "docs/runbook.md#"+strings.ToLower(a.Alert) {
			t.Errorf("%s is not in the runbook, or its runbook_url %q is wrong", a.Alert, a.URL)
		}
		named = slices.DeleteFunc(named, func(n string) bool { return n == a.Alert })
		if !strings.Contains(tests, "name: "+a.Alert+"\n") {
			t.Errorf("%s has no test in which it fires", a.Alert)
		}
	}
	if len(named) > 0 {
		t.Errorf("the runbook has entries for no alert: %v", named)
	}
}

// exported returns the names of all metrics of this program, including the parts of histograms.
func exported() map[string]bool {
	names := map[string]bool{}
	for _, m := range everyMetric() {
		for _, part := range []string{"", "_bucket", "_sum", "_count"} {
			names[m.name+part] = true
		}
	}
	return names
}

func TestAlertsAndDashboardNameMetricsThatAreThere(t *testing.T) {
	there := exported()
	metric := regexp.MustCompile(`perennial_[a-z0-9_]+`)
	for _, file := range []string{"operations/alerts.yaml", "operations/alerts_test.yaml", "operations/grafana.json", "monitor.md", "runbook.md"} {
		found := metric.FindAllString(document(t, file), -1)
		if len(found) == 0 {
			t.Errorf("%s names no metric", file)
		}
		for _, name := range found {
			if !there[name] {
				t.Errorf("%s names %s, which is not exported", file, name)
			}
		}
	}
	var dashboard struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	must(t, json.Unmarshal([]byte(document(t, "operations/grafana.json")), &dashboard))
	if len(dashboard.Panels) < 20 {
		t.Errorf("%d panels", len(dashboard.Panels))
	}
}

// The document explains each label value of an alert.
func TestEachCauseAndFindingHasItsWords(t *testing.T) {
	text := document(t, "operations.md")
	for _, word := range slices.Concat([]string{ledger.CauseRestored}, decide.PauseCauses(), decide.FindingKinds()) {
		if !strings.Contains(text, "`"+word+"`") {
			t.Errorf("operations.md does not say what %s means", word)
		}
	}
}

// checkNames are the checks of /readyz?verbose, and "" for none.
var checkNames = []string{"", checkNATS, checkStreams, checkEvents, checkDisk, checkLedger, checkAccount, checkProvider, checkPaused, checkRestored, checkSweeps, checkBooks}

// Each wait in the table names an existing check of /readyz and an existing metric.
func TestEveryWaitIsShown(t *testing.T) {
	t.Parallel()
	text := document(t, "monitor.md")
	_, table, _ := strings.Cut(document(t, "state-machine.md"), "| what | reason | ")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(strings.TrimSpace(table), "\n")
	if len(rows) < 30 {
		t.Fatalf("%d waits", len(rows))
	}
	for _, row := range rows[2:] {
		cells := strings.Split(row, " | ")
		if check := strings.Trim(cells[4], "`"); !slices.Contains(checkNames, check) {
			t.Errorf("%s %s names the check %q, which is none", cells[0], cells[1], check)
		}
		if metric := strings.Trim(cells[5], "` |"); !strings.Contains(text, "`"+metric+"{") {
			t.Errorf("%s %s names the metric %s, which docs/monitor.md does not have", cells[0], cells[1], metric)
		}
	}
}
