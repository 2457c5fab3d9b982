package web

import (
	"fmt"
	"html/template"
	"math"
	"net/url"
	"path"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"perennial/jobs"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/schedules"
	"perennial/schedules/plans"
)

// pageNames lists the pages. Each page is templates/NAME.html inside templates/layout.html.
var pageNames = []string{
	"login", "failed", "overview", "operations", "operation", "reviews", "answered", "schedules", "schedule", "proxies", "proxy", "calendar", "money", "statement", "log", "changed",
	"revealed", "webhooks", "dead", "letter", "runners", "attention", "confirm", "accounts",
}

var pages = sync.OnceValue(func() map[string]*template.Template {
	all := make(map[string]*template.Template, len(pageNames))
	for _, name := range pageNames {
		all[name] = template.Must(template.New(name).Funcs(functions).ParseFS(embedded, "templates/layout.html", "templates/"+name+".html"))
	}
	return all
})

var functions = template.FuncMap{
	"money":      fact.Amount,
	"when":       when,
	"prose":      prose,
	"backTo":     backTo,
	"ago":        ago,
	"span":       roughly,
	"to":         to,
	"field":      field,
	"level":      level,
	"day":        dayAs("2 Jan 2006"),
	"reconciled": ReconciledText,
	"short":      short,
	"schedulesOf": func(account string, rows []schedules.Status, nothingSent bool, now time.Time) scheduleRows {
		return scheduleRows{account, rows, nothingSent, now}
	},
	"booksOf":   func(account string, of any, now time.Time) booksRows { return booksRows{account, of, now} },
	"exportsOf": func(account, month string) exportLinks { return exportLinks{account, month} },
	"apart": func(provider, ledger int64, currency string) string {
		switch {
		case provider < ledger:
			return fact.Amount(ledger-provider, currency) + " less at the provider"
		case provider > ledger:
			return fact.Amount(provider-ledger, currency) + " more at the provider"
		}
		return "the same"
	},
	"walletat": func(x *tables.Reconciled, currency string) walletAt { return walletAt{x, currency} },
	"amount": func(c fact.Cents) string {
		if !c.Known() {
			return ""
		}
		return fact.Decimal(c.Or(0))
	},
	"until": func(at *time.Time, now time.Time) string {
		if at == nil {
			return ""
		}
		return relative(*at, now)
	},
	"lag":        lag,
	"stateName":  stateName,
	"pause":      pauseText,
	"cost":       costText,
	"shell":      func(word string) string { return shell([]string{word}) },
	"reviewkey":  reviewKey,
	"lastday":    func(end time.Time) string { return end.Add(-time.Nanosecond).Format(time.DateOnly) },
	"dayOfMonth": dayAs("2 Jan"), // for a chart's axis
	"minutes":    func(seconds int64) int64 { return seconds / 60 },
	"add":        func(a, b int64) int64 { return a + b },
	"sub":        func(a, b int64) int64 { return a - b },
}

// dayAs returns a function that formats a day such as 2026-11-21.
func dayAs(layout string) func(string) string {
	return func(day string) string {
		at, err := time.Parse(time.DateOnly, day)
		if err != nil {
			return day
		}
		return at.Format(layout)
	}
}

var instantText = regexp.MustCompile(`\b([0-9]{4}-[0-9]{2}-[0-9]{2})T([0-9]{2}:[0-9]{2}:[0-9]{2})(\.[0-9]+)?Z`)

var commandText = regexp.MustCompile("`(perennial [^`]+)`")

// prose formats a text of the program: instants in the form of the pages, and commands as code.
func prose(text string) template.HTML {
	text = instantText.ReplaceAllString(template.HTMLEscapeString(text), "$1 $2 UTC")
	return template.HTML(commandText.ReplaceAllString(text, "<code>$1</code>")) //nolint:gosec // the text is escaped
}

// backTo names the page at an address, such as "schedule keepalive".
func backTo(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	return strings.TrimSpace(field(path.Base(u.Path)) + " " + short(u.Query().Get("id")))
}

// when formats a time in UTC. A script in the page converts it to the reader's time zone.
func when(v any) template.HTML {
	var at time.Time
	switch v := v.(type) {
	case time.Time:
		at = v
	case *time.Time:
		if v == nil {
			return "—"
		}
		at = *v
	}
	if at.IsZero() {
		return "—"
	}
	text := at.UTC().Format("2006-01-02 15:04:05")
	return template.HTML(`<time datetime="` + at.UTC().Format(time.RFC3339Nano) + `" title="` + text + ` UTC">` + text + ` UTC</time>`) //nolint:gosec // digits alone
}

// relative formats a time relative to now, such as "3 hours ago" or "in 2 days".
func relative(at, now time.Time) string {
	text := humanize.CustomRelTime(at, now, "ago", "from now", magnitudes)
	if span, later := strings.CutSuffix(text, " from now"); later {
		return "in " + span
	}
	return text
}

// magnitudes are finer than those of humanize: hours up to two days, days up to two months.
var magnitudes = []humanize.RelTimeMagnitude{
	{D: time.Second, Format: "now", DivBy: time.Second}, {D: 2 * time.Second, Format: "1 second %s", DivBy: 1},
	{D: time.Minute, Format: "%d seconds %s", DivBy: time.Second}, {D: 2 * time.Minute, Format: "1 minute %s", DivBy: 1},
	{D: time.Hour, Format: "%d minutes %s", DivBy: time.Minute}, {D: 2 * time.Hour, Format: "1 hour %s", DivBy: 1},
	{D: 2 * fact.Day, Format: "%d hours %s", DivBy: time.Hour}, {D: 60 * fact.Day, Format: "%d days %s", DivBy: fact.Day},
	{D: 2 * 365 * fact.Day, Format: "%d months %s", DivBy: 30 * fact.Day}, {D: math.MaxInt64, Format: "%d years %s", DivBy: 365 * fact.Day},
}

func ago(v any, now time.Time) string {
	switch v := v.(type) {
	case time.Time:
		return relative(v, now)
	case *time.Time:
		if v != nil {
			return relative(*v, now)
		}
	}
	return "never"
}

// roughly formats a duration in days, or in hours if it is shorter than 48 hours. A
// negative duration counts as 0.
func roughly(d time.Duration) string {
	if d >= 48*time.Hour {
		return fmt.Sprintf("%d days", int(d.Hours()/24))
	}
	if h := int(d.Hours()); h != 1 {
		return fmt.Sprintf("%d hours", max(h, 0))
	}
	return "1 hour"
}

func lag(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// to returns the address of an account's page. The parameter query contains names of query
// fields, each followed by its value. Empty values are omitted.
func to(account, page string, query ...string) string {
	values := url.Values{}
	for i := 0; i+1 < len(query); i += 2 {
		if query[i+1] != "" {
			values.Set(query[i], query[i+1])
		}
	}
	address := "/a/" + url.PathEscape(account) + "/" + page
	if len(values) > 0 {
		address += "?" + strings.ReplaceAll(values.Encode(), "+", "%20")
	}
	return address
}

func field(name any) string { return strings.ReplaceAll(fmt.Sprint(name), "_", " ") }

func stateName(state any) string {
	if text := fmt.Sprint(state); text != string(fact.StateHeld) {
		return field(text)
	}
	return "on hold"
}

// short shortens a long id in the middle. It leaves text with spaces unchanged.
func short(id string) string {
	if r := []rune(id); len(r) > 32 && !strings.Contains(id, " ") {
		return string(r[:20]) + "…" + string(r[len(r)-8:])
	}
	return id
}

type scheduleRows struct {
	Account     string
	Rows        []schedules.Status
	NothingSent bool // renewals are paused
	Now         time.Time
}

type exportLinks struct{ Account, Month string }

// Exports maps a file extension to the label of the link to the file.
func (exportLinks) Exports() map[string]string {
	return map[string]string{"csv": "Entries, CSV", "jsonl": "Entries, JSON lines", "beancount": "Beancount", "statement.csv": "Statement, CSV"}
}

type booksRows struct {
	Account string
	Of      any
	Now     time.Time
}

// walletAt is the provider's wallet at the last reconciliation.
type walletAt struct {
	*tables.Reconciled

	Currency string
}

// levels maps states to colors: ok, busy, warn and bad. Any other state is grey.
var levels = map[string]string{
	"delivered": "ok", "completed": "ok", "finished": "ok", "resolved": "ok", "succeeded": "ok",
	"accepted": "busy", "sending": "busy", "waiting": "busy", "open": "busy", "pending": "busy", "planned": "busy",
	"held": "warn", "partial": "warn", tables.OutcomeOverBudget: "warn", tables.OutcomeWalletTooLow: "warn", tables.OutcomeDeclined: "warn",
	tables.ProxyRenewing: "busy", plans.ProxyDue: "busy", tables.ProxyInReview: "bad", plans.ProxyUnscheduled: "bad",
	"delivering": "ok", "new": "busy", "retrying": "warn", "stopped": "bad",
	"review": "bad", "failed": "bad", "missed": "bad", "unresolved": "bad",
}

func level(state any) string { return levels[fmt.Sprint(state)] }

// ReconciledText describes the last reconciliation briefly.
func ReconciledText(x jobs.LastReconciliation, currency string) string {
	text := "not yet in this run"
	switch {
	case x.At.IsZero():
	case x.OK == nil:
		text = "the wallet could not be compared, " + humanize.Time(x.At) + ": the cost of something open is not known, or the provider shows it late"
	case x.Agrees() && x.Quiet:
		text = "to the cent, " + humanize.Time(x.At)
	case x.Agrees():
		text = "within what is in review or in progress, " + humanize.Time(x.At)
	default:
		off := ""
		if *x.DifferenceCents != 0 { // a difference of 0 is not mentioned, but the findings are
			off = ", the wallet is " + fact.Amount(*x.DifferenceCents, currency) + " off"
		}
		text = fmt.Sprintf("%s%s, %s: perennial ledger reconcile", english.Plural(x.Findings, "finding", ""), off, humanize.Time(x.At))
	}
	if x.Failed != "" {
		text += "; the latest attempt failed: " + x.Failed
	}
	return text
}
