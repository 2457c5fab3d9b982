package web

import (
	"bytes"
	"html/template"
	"io/fs"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"perennial/jobs"
	"perennial/jobs/inspect"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/schedules"
)

// design is the data of testdata/design.html, which shows the whole design system on one page. No
// program serves that page.
type design struct {
	States                                       [][]string // of one colour each
	Books                                        booksView
	Needs, None                                  []need
	Schedules                                    []schedules.Status
	Letter, Confirm, Operations, Empty, Calendar view // of whole pages
	Earlier, Never                               *time.Time
	Making, Failed, Stale                        Made[int]
}

// sampleDesign has one example of everything.
func sampleDesign() design {
	of := func(data any) view { return view{Account: "main", CanAct: true, Form: "form", Now: noon, Data: data} }
	earlier, expires := noon.Add(-26*time.Hour), noon.Add(30*time.Hour)
	byLevel := map[string][]string{"": {"rejected", "cancelled", "refunded", "retired"}}
	for _, state := range slices.Sorted(maps.Keys(levels)) {
		byLevel[levels[state]] = append(byLevel[levels[state]], state)
	}
	d := design{Earlier: &earlier, Failed: Made[int]{Err: "the runner does not answer"}, Stale: Made[int]{At: noon, Err: "the runner does not answer"}}
	for _, level := range []string{"ok", "busy", "warn", "bad", ""} {
		d.States = append(d.States, byLevel[level])
	}
	d.Books = booksView{
		Balance:  tables.Balance{Currency: "USD", WalletCents: 1_245_080, SuspenseCents: 300, Unbooked: &tables.Unbooked{Operations: 1, EstimateCents: fact.Known(640)}},
		Compared: &jobs.LastReconciliation{At: earlier, OK: new(true), ProviderCents: new(int64(1_245_080)), DifferenceCents: new(int64(0))},
	}
	d.Needs = []need{
		{"review", "Review", "ads-last-minute/0001", "Outcome unknown, at an unknown price: the provider answers proxy_endpoint_unavailable.", "Resolve", "#type"},
		{"held", "Approval", "ads-weekly", "The plan needs approval: 10.80 USD, 3 proxies due.", "Review plan", "#type"},
	}
	result := tables.SlotResult{Outcome: tables.OutcomeOverBudget, Due: new(int64(7)), Renewed: 5, Skipped: 2, ChargedCents: 1540}
	d.Schedules = []schedules.Status{
		{Schedule: "keepalive", Cron: "30 5 * * *", Timezone: "Europe/London", State: "finished", Result: &result, Currency: "USD", LastSlot: &earlier, NextSlot: &expires, Why: "budget_cents (16.00 USD) is too small for 2 proxies"},
		{Schedule: "ads-weekly", Cron: "0 9 * * 1", Timezone: "Europe/Berlin", State: "held", Plan: "73b3e0d8", LastSlot: &earlier},
		{Schedule: "trial", Cron: "@daily", Timezone: "UTC", Paused: &tables.SchedulePause{By: "ada", Reason: "prices change"}},
	}
	letter := letterOf(Letter{Seq: 7, Published: earlier, Subject: "perennial.commands.main.proxy.renew", Reason: "the command has no id", Text: `{"proxy_ids":["px_1"]}`, Bytes: 22})
	letter.Typed, letter.Why, letter.Wrong = `{"id":"again","proxy_ids":[]}`, "the team asked for it", "proxy_ids is empty: name at least one proxy"
	d.Letter = of(letter)
	d.Confirm = of(confirmView{Why: "999.99 USD is more than twice the expected 8.40 USD", Charged: true, Cents: 99_999, Expected: fact.Known(840), Wallet: 50_000, After: -49_999, Currency: "USD"})
	d.Operations = of(&operationsView{
		All: 2, Tabs: []stateCount{{fact.StateReview, 1}, {fact.StateCompleted, 1}}, Kinds: []fact.Kind{fact.KindOrder, fact.KindRenewal}, Older: "#type", LookedTo: &earlier, form: url.Values{},
		Rows: []operationRow{
			{inspect.OperationStatus{OperationID: "sweep-shop-daily-npb7y66g2zec2lqyce35yztt3xnr3yko/0001", State: fact.StateCompleted, AcceptedAt: earlier, ChargedCents: 123_456, RefundedCents: 300, Currency: "USD"}, "renew 3 proxies for 30 days"},
			{inspect.OperationStatus{OperationID: "ads-last-minute/0001", State: fact.StateReview, AcceptedAt: earlier, Currency: "USD", Reason: "the provider answers proxy_endpoint_unavailable: it may have charged"}, "renew 2 proxies for 30 days"},
		},
	})
	d.Empty = of(deadView{})
	days := [7]calendarDay{{Day: "20", Full: "20 November", From: "2026-11-20", Until: "2026-11-21"}, {Day: "21", Full: "21 November", From: "2026-11-21", Until: "2026-11-22", Today: true, calendarCount: calendarCount{Expiring: 4, Uncovered: 1, Retired: 1, Cost: fact.Sum{Cents: 900, Lacks: 1}}}}
	d.Calendar = of(calendarView{Before: calendarLink{"2026-10", "October 2026"}, After: calendarLink{"2026-12", "December 2026"}, Name: "November 2026", Weeks: [][7]calendarDay{days}, Made: Made[map[string]calendarCount]{At: noon}, Sum: days[1].calendarCount, Currency: "USD"})
	return d
}

// designPage renders the page of the design system from the templates of the pages.
func designPage(t testing.TB) string {
	t.Helper()
	page := func(name string, of view) (template.HTML, error) {
		var out bytes.Buffer
		err := pages()[name].ExecuteTemplate(&out, "content", of)
		return template.HTML(out.String()), err
	}
	set, err := template.New("design").Funcs(functions).Funcs(template.FuncMap{"page": page}).ParseFS(embedded, "templates/layout.html")
	check(t, err)
	_, err = set.ParseFiles("testdata/design.html")
	check(t, err)
	var out bytes.Buffer
	check(t, set.ExecuteTemplate(&out, "layout", view{
		Title: "Design system", Section: "overview", Person: Person{Name: "ada", Role: Operator}, Accounts: []string{"main", "other"}, Account: "main", Now: noon, Version: "0.1.0", Data: sampleDesign(),
		Pages: []pageLink{{Name: "Overview", Section: "overview", To: "#type"}, {Name: "Attention", Section: "attention", To: "#type", Badge: "9"}, {Name: "Money", Section: "money", To: "#type"}},
	}))
	return out.String()
}

// words returns the set of words in the matches of an expression's group.
func words(text, expression string) map[string]bool {
	all := map[string]bool{}
	for _, m := range regexp.MustCompile(expression).FindAllStringSubmatch(text, -1) {
		for word := range strings.FieldsSeq(m[1]) {
			all[word] = true
		}
	}
	return all
}

// Each class of the style sheet is on the page of the design system and on a real page. The page of
// the design system has no class of its own.
func TestTheDesignPageIsTheDesignSystem(t *testing.T) {
	sheet, err := fs.ReadFile(embedded, "static/page.css")
	check(t, err)
	selectors := regexp.MustCompile(`/\*[^*]*\*/|\{[^{}]*\}`).ReplaceAllString(string(sheet), " ")
	styled := words(selectors, `\.([a-z][a-z-]*)`)
	var made, written strings.Builder
	check(t, fs.WalkDir(embedded, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(path, ".css") {
			return err
		}
		text, err := fs.ReadFile(embedded, path)
		if strings.HasSuffix(path, ".js") {
			made.Write(text)
		} else {
			written.Write(text)
		}
		return err
	}))
	byScript := words(made.String(), `className = "([^"]*)"`)
	onPages := words(regexp.MustCompile(`\{\{[^{}]*\}\}`).ReplaceAllString(written.String(), " "), `class="([^"]*)"`)
	for _, level := range levels {
		onPages[level] = true // from the template "state"
	}
	shown := words(designPage(t), `class="([^"]*)"`)
	if len(styled) < 50 || len(onPages) < 50 || len(byScript) == 0 {
		t.Fatalf("%d classes of the style sheet, %d of the pages, %d of the scripts", len(styled), len(onPages), len(byScript))
	}
	for _, class := range slices.Sorted(maps.Keys(styled)) {
		if !onPages[class] && !byScript[class] {
			t.Errorf("no page has an element of the class %s: remove it from the style sheet", class)
		}
		if !shown[class] && !byScript[class] {
			t.Errorf("testdata/design.html does not show the class %s", class)
		}
	}
	for class := range shown {
		if !styled[class] {
			t.Errorf("testdata/design.html has the class %s, which no rule styles", class)
		}
	}
}
