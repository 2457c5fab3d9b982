package crashtest

import (
	"regexp"
	"strings"
	"testing"
)

var (
	amountWord = regexp.MustCompile(`^-?[\d,]+\.\d\d$`)
	separated  = regexp.MustCompile(`^-?\d{1,3}(,\d{3})*\.\d\d$`)
	centsWord  = regexp.MustCompile(`(?i)(^|[^-\w])cents?\b`)

	typedAmount = regexp.MustCompile(`--charged [\d.]+`) // the amount of a flag, to be typed
)

// inOneForm checks that a text for people shows money with its currency. Only flags and keys may be
// in cents.
func inOneForm(t testing.TB, what, text string) (amounts int) {
	t.Helper()
	said := strings.ReplaceAll(text, "to the cent", "")
	if found := centsWord.FindString(said); found != "" {
		t.Errorf("%s shows cents:\n%s", what, text)
	}
	words := strings.Fields(typedAmount.ReplaceAllString(text, ""))
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

func TestAnUnknownPriceIsNeverShownAsNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.configure("", approved)
	w.run()
	w.write("batch.jsonl", `{"id":"b1","duration_days":30,"proxy_ids":["px_1"]}`+"\n", 0o600)
	for _, command := range []string{"sweep plan keep", "sweep forecast --days 366", "submit batch.jsonl --dry-run"} {
		out := w.mustCLI(strings.Fields(command)...)
		head, _, _ := strings.Cut(out, "\n")
		if !strings.Contains(out, "list price 3.00 USD, no renewal paid yet") && !strings.Contains(out, "list price 18.00 USD, no renewal paid yet") || strings.Contains(head, " 0.00 USD") || strings.Contains(out, "  0.00 USD\n") {
			t.Errorf("%s:\n%s", command, out)
		}
	}
}
