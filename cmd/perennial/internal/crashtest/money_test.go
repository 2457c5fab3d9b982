package crashtest

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"perennial/ledger"
)

var (
	amountWord = regexp.MustCompile(`^-?[\d,]+\.\d\d$`)
	separated  = regexp.MustCompile(`^-?\d{1,3}(,\d{3})*\.\d\d$`)
	centsWord  = regexp.MustCompile(`(?i)(^|[^-\w])cents?\b`)
)

// inOneForm checks that a text for people shows money with its currency, and
// nothing in cents but the flags and keys that take them.
func inOneForm(t testing.TB, what, text string) (amounts int) {
	t.Helper()
	said := strings.ReplaceAll(strings.ReplaceAll(text, "to the cent", ""), "--charged", "")
	if found := centsWord.FindString(said); found != "" {
		t.Errorf("%s shows cents:\n%s", what, text)
	}
	words := strings.Fields(text)
	for i, word := range words {
		if !amountWord.MatchString(strings.Trim(word, ",;:()")) {
			continue
		}
		if amounts++; !separated.MatchString(strings.Trim(word, ",;:()")) {
			t.Errorf("%s shows %s without separators of thousands:\n%s", what, word, text)
		}
		if i+1 == len(words) || strings.Trim(words[i+1], ",;:()") != "USD" {
			t.Errorf("%s shows %s without its currency:\n%s", what, word, text)
		}
	}
	return amounts
}

const approved = `schedules:
  - name: keep
    cron: "0 0 1 1 *"
    renew_before: 300h
    duration_days: 30
    daily_budget_cents: 1200
    approve_over_cents: 500
`

// TestTablesAndSentencesShowMoneyInOneForm: every command that prints an amount.
func TestTablesAndSentencesShowMoneyInOneForm(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 8)
	w.configure("", "    daily_limit_cents: 5000\n"+approved)
	w.run()
	w.mustCLI("order", "--item", "off_us_1=2", "--id", "buy", "--wait")
	w.mustCLI("renew", "px_1", "--id", "r1", "--wait", "--label", "team=a")
	w.fault(map[string]any{"method": "POST", "path": "/api/v1/proxies/renew", "fault": "renewal", "unresolved": 1, "times": 1})
	w.cli("renew", "px_2", "--id", "doubt", "--wait")
	w.cli("order", "--item", "off_us_1=100", "--id", "dear", "--wait", "--timeout", "1s")
	w.control("POST", "/wallet", []byte(`{"account_id":"acc_alpha","environment":"sandbox","add_cents":70000}`))
	w.write("batch.jsonl", `{"id":"b1","duration_days":30,"items":[{"offer_code":"off_us_1","quantity":2}]}
{"id":"b2","duration_days":30,"proxy_ids":["px_nowhere"]}
`, 0o600)
	var o struct {
		OrderNo string `json:"order_no"`
	}
	if err := json.Unmarshal([]byte(strings.SplitN(w.mustCLI("orders", "-o", "json"), "\n", 2)[0]), &o); err != nil {
		t.Fatal(err)
	}
	var r ledger.Review
	if err := json.Unmarshal([]byte(w.mustCLI("review", "list", "-o", "json")), &r); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		command string
		amounts int // at least
	}{
		{"sweep plan keep", 5}, {"sweep run keep", 5}, {"sweep list", 1}, {"sweep forecast --days 366", 3},
		{"status", 6}, {"status r1", 3}, {"status dear", 3}, {"review list", 1}, {"review show " + r.OperationID, 1},
		{"ledger balance", 6}, {"ledger balance --by label", 3}, {"ledger entries", 3}, {"ledger reconcile", 3},
		{"account show", 1}, {"wallet", 2}, {"offers", 1}, {"orders", 1}, {"orders get " + o.OrderNo, 1}, {"doctor", 1},
		{"submit batch.jsonl --dry-run", 2}, {"ledger record --kind top-up --cents 700 --by ada --reason transfer", 1},
	} {
		out, errs, _ := w.cli(strings.Fields(c.command)...)
		if got := inOneForm(t, c.command, out+errs); got < c.amounts {
			t.Errorf("%s shows %d amounts:\n%s%s", c.command, got, out, errs)
		}
	}
}

// TestAnUnknownPriceIsNeverShownAsNone.
func TestAnUnknownPriceIsNeverShownAsNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.configure("", approved)
	w.run()
	w.write("batch.jsonl", `{"id":"b1","duration_days":30,"proxy_ids":["px_1"]}`+"\n", 0o600)
	for _, command := range []string{"sweep plan keep", "sweep forecast --days 366", "submit batch.jsonl --dry-run"} {
		out := w.mustCLI(strings.Fields(command)...)
		head, _, _ := strings.Cut(out, "\n")
		if !strings.Contains(out, "list price 3.00 USD, not yet paid once") && !strings.Contains(out, "list price 18.00 USD, not yet paid once") || strings.Contains(head, " 0.00 USD") || strings.Contains(out, "  0.00 USD\n") {
			t.Errorf("%s:\n%s", command, out)
		}
	}
}
