package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/schedules"
	"perennial/schedules/plans"
)

// settled gets a page until all its figures have been computed.
func (h *rig) settled(path string) string {
	h.t.Helper()
	for {
		next := h.pages.figures.next()
		code, body, _ := h.get(path)
		if code != 200 {
			h.t.Fatalf("%s: %d %s\n%s", path, code, body, h.log)
		}
		if !strings.Contains(body, `http-equiv="refresh"`) {
			return body
		}
		select {
		case <-next:
		case <-h.t.Context().Done():
			h.t.Fatal(path, "is not made")
		}
	}
}

func wants(t *testing.T, page string, texts ...string) {
	t.Helper()
	plain := strings.Join(strings.Fields(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(page, " ")), " ")
	for _, text := range texts {
		if !strings.Contains(plain, text) && !strings.Contains(page, text) {
			t.Errorf("no %q:\n%s", text, plain)
		}
	}
}

// lists returns the proxies in the rows of a page.
func lists(page string) (ids []string) {
	for _, m := range regexp.MustCompile(`<td(?: class="t")?><a href="[^"]*/proxy\?id=([^"]*)">`).FindAllStringSubmatch(page, -1) {
		ids = append(ids, m[1])
	}
	return ids
}

// stock adds proxies with their remaining hours.
func (h *rig) stock(hours map[string]int) {
	h.t.Helper()
	check(h.t, h.main.Write(h.t.Context(), func(tx *ledger.Tx) error {
		for id, n := range hours {
			at := noon.Add(time.Duration(n) * time.Hour)
			if err := tx.Observe(1, tables.Proxy{ProxyID: id, CountryCode: "US", ExpiresAt: &at, SeenAt: noon}); err != nil {
				return err
			}
		}
		return nil
	}))
}

// renewed adds a charged renewal of a proxy.
func (h *rig) renewed(command, proxy string, cents int64, expiry time.Time) {
	h.t.Helper()
	h.settles(command, fact.Line{ProxyID: proxy, State: fact.LineSucceeded, ChargedCents: cents}, expiry)
}

// settles adds a renewal of one proxy with its result.
func (h *rig) settles(command string, line fact.Line, expiry time.Time) {
	h.t.Helper()
	status := map[bool]string{true: "completed", false: "failed"}[line.State == fact.LineSucceeded]
	ref := fact.Ref{CommandID: command, OperationID: command + "/0001"}
	check(h.t, h.main.Write(h.t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(
			fact.CommandAccepted{Ref: fact.Ref{CommandID: command}, Kind: fact.KindRenewal, Content: json.RawMessage(`{}`), DurationDays: 30,
				Operations: []fact.Planned{{OperationID: ref.OperationID, Chunk: "0001", Generation: 1, Key: "key-" + command, ProxyIDs: []string{line.ProxyID}}}},
			fact.OperationSending{Ref: ref, Attempt: 1, Key: "key-" + command, Body: "{}", SentAt: noon, Observed: map[string]time.Time{line.ProxyID: expiry}},
			fact.RenewalSettled{Ref: ref, Status: status, Attempt: 1, Lines: fact.Lines{ChargedCents: line.ChargedCents, RefundedCents: line.RefundedCents, Items: []fact.Line{line}}})
	}))
}

// The overview also shows which run fails first, or that there is no forecast.
func TestTheOverviewSaysHowLongTheWalletLasts(t *testing.T) {
	h := newRig(t)
	h.signIn(h.client, Person{Name: "ada", Role: Viewer})
	wants(t, h.settled("/a/main/overview"), "Cost unknown No forecast: the runner says no to forecast", "Books unknown", `class="card " aria-labelledby="card-books"`)
	h = newRig(t)
	h.signIn(h.client, Person{Name: "ada", Role: Viewer})
	wallet, p50, since := int64(1000), int64(40), noon
	h.main.answer["forecast"] = schedules.Forecast{
		Schedules: []string{"keep"}, Currency: "USD", WalletCents: &wallet, RunsOutOn: "2026-11-23", ChargeCents: fact.Known(1300), Unpriced: 2,
		Days:       []schedules.ForecastDay{{Day: "2026-11-21", Renewals: 1, ChargeCents: fact.Known(300), WalletCents: &wallet}, {Day: "2026-11-22"}, {Day: "2026-11-23", Renewals: 4, ChargeCents: fact.Known(1000)}},
		FailsFirst: &schedules.ForecastSweep{Schedule: "keep", Slot: noon.Add(48 * time.Hour), MissingCents: 300},
	}
	h.main.answer["show"] = map[string]any{"provider": jobs.ProviderRecent{WindowSeconds: 900, Requests: 7, P50Millis: &p50, P99Millis: &p50, Codes: map[string]int64{"ok": 6, "rate_limited": 1}, RateLimited: 1, Answers: true, Since: &since}}
	page := h.settled("/a/main/overview")
	wants(t, page, "Wallet runs out 23 Nov 2026", "First missed: keep at 2026-11-23 12:00:00 UTC , short by 3.00 USD.", "2 of unknown price are not in it",
		`<a href="/a/main/proxies?due=2026-11-23">2026-11-23</a>`, `data-value="1000"`, "Provider ok since", "1 × 429", "p50 40 ms", `class="card bad" aria-labelledby="card-cost"`)
}

func TestTheCostNamesWhatAPausedScheduleDoesNotRenew(t *testing.T) {
	h := newRig(t)
	h.signIn(h.client, Person{Name: "ada", Role: Viewer})
	wallet, paused := int64(9000), []schedules.ForecastPaused{{Schedule: "keep-jp", Renewals: 3, ChargeCents: fact.Known(1260)}}
	h.main.answer["forecast"] = schedules.Forecast{Schedules: []string{"keep-jp"}, Currency: "USD", WalletCents: &wallet, ChargeCents: fact.Known(2520), Days: []schedules.ForecastDay{
		{Day: "2026-11-21", Renewals: 3, ChargeCents: fact.Known(1260), Paused: paused}, {}, {}, {}, {}, {}, {}, {Day: "2026-11-28", Renewals: 3, ChargeCents: fact.Known(1260), Paused: paused},
	}}
	wants(t, h.settled("/a/main/overview"), "next 7 days 12.60 USD of it 12.60 USD by the paused schedule keep-jp next 8 days 25.20 USD of it 25.20 USD by the paused schedule keep-jp")
}

func TestTheCostNamesWhatDailyBudgetsDoNotPay(t *testing.T) {
	h := newRig(t)
	h.signIn(h.client, Person{Name: "ada", Role: Viewer})
	wallet := int64(9000)
	h.main.answer["forecast"] = schedules.Forecast{Schedules: []string{"keep"}, Currency: "USD", WalletCents: &wallet, ChargeCents: fact.Known(2520), Days: []schedules.ForecastDay{
		{Day: "2026-11-21", Renewals: 3, ChargeCents: fact.Known(1260), OverBudgetCents: 840}, {Day: "2026-11-22", Renewals: 3, ChargeCents: fact.Known(1260)},
	}}
	wants(t, h.settled("/a/main/overview"), "next 2 days 25.20 USD of it 8.40 USD over daily budgets", "12.60 USD 8.40 USD over the day’s budget")
}

func TestTheCalendarNamesWhatAPausedScheduleDoesNotRenew(t *testing.T) {
	h := newRig(t)
	h.stock(map[string]int{"px_a": 24 * 20})
	h.renewed("paid", "px_a", 450, noon)
	check(t, h.main.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(fact.SchedulePaused{Schedule: "keep", By: "bob", Reason: "holidays"})
	}))
	h.signIn(h.client, Person{Name: "ada", Role: Viewer})
	wants(t, h.settled("/a/main/calendar?month=2026-12"), "4.50 USD , of it 4.50 USD by the paused schedule keep")
}

// An unknown price and a fleet that was not listed are never shown as zero.
func TestThePagesDoNotShowWhatIsNotKnownAsNone(t *testing.T) {
	h := newRig(t)
	h.signIn(h.client, Person{Name: "ada", Role: Viewer})
	wallet := int64(1000)
	f := schedules.Forecast{Schedules: []string{"keep"}, Currency: "USD", WalletCents: &wallet, Unpriced: 2, Days: []schedules.ForecastDay{{Day: "2026-11-21", Renewals: 2, Unpriced: 2}}}
	h.main.answer["forecast"] = f
	page := h.settled("/a/main/overview")
	wants(t, page, "Cost unknown next 7 days an unknown amount (2 of unknown price) next 1 days an unknown amount (2 of unknown price)", `class="card " aria-labelledby="card-cost"`)
	f.Schedules, f.Unpriced = nil, 0
	h = newRig(t)
	h.signIn(h.client, Person{Name: "ada", Role: Viewer})
	h.main.answer["forecast"] = f
	wants(t, h.settled("/a/main/overview"), "No forecast: no schedule renews anything")
	h = newRig(t)
	h.signIn(h.client, Person{Name: "ada", Role: Viewer})
	check(t, h.main.Write(t.Context(), func(tx *ledger.Tx) error { return tx.KeepListing(tables.Listing{Pass: 2}) }))
	const unlisted = "no listing of its proxies has ended yet"
	page = h.settled("/a/main/overview")
	wants(t, page, "Expiring unknown "+unlisted, "This cannot be made now: "+unlisted, "No forecast: "+unlisted)
	wants(t, h.settled("/a/main/calendar"), unlisted)
}

// The list comes page by page, with the next expiry first.
func TestWhatNoScheduleCoversIsCountedAndListed(t *testing.T) {
	h := newRig(t)
	h.main.schedules = []plans.Schedule{{Name: "keep", Account: "main", Cron: "@hourly", RenewBefore: 72 * time.Hour, DurationDays: 30, Match: plans.Match{CountryCode: []string{"DE"}}}}
	many := map[string]int{}
	for i := range proxiesShown + 3 {
		many[fmt.Sprintf("px_u%03d", i)] = 10 + i/2 // two have the same expiry, so that the id decides
	}
	h.stock(many)
	check(t, h.main.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(fact.ProxyRetired{ProxyID: "px_u000", By: "ada", Reason: "let go"})
	}))
	h.signIn(h.client, Person{Name: "ada", Role: Viewer})
	page := h.settled("/a/main/proxies?uncovered=1")
	wants(t, page, "203 proxies are renewed by no schedule") // px_1 counts, px_u000 does not
	first := lists(page)
	more := regexp.MustCompile(`href="([^"]+)" rel="next"`).FindStringSubmatch(page)
	if len(first) != proxiesShown || first[0] != "px_1" || more == nil {
		t.Fatalf("%d, the first %s, more %v", len(first), first[0], more)
	}
	rest := lists(h.settled("/a/main/proxies" + strings.ReplaceAll(more[1], "&amp;", "&")))
	if strings.Join(rest, " ") != "px_u200 px_u201 px_u202" {
		t.Errorf("the rest is %v", rest)
	}
	wants(t, h.settled("/a/main/overview"), `<a href="/a/main/proxies?uncovered=1">203 not scheduled</a>`)
}

// The next proxy to expire comes first. Filters are in the address, and the next page keeps them.
func TestProxiesAreSortedByExpiryAndFound(t *testing.T) {
	h := newRig(t)
	h.main.schedules = append(h.main.schedules, plans.Schedule{Name: "rest", Account: "main", Cron: "@hourly", RenewBefore: time.Hour, DurationDays: 30, Match: plans.Match{ProxyIDs: []string{"px_2"}}})
	many := map[string]int{"px_2": 5, "px_soon": 1}
	for i := range proxiesShown + 1 {
		many[fmt.Sprintf("px_later_%03d", i)] = 100 + i
	}
	h.stock(many)
	check(t, h.main.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Observe(1, tables.Proxy{ProxyID: "px_never", CountryCode: "US", SeenAt: noon})
	}))
	h.signIn(h.client, Person{Name: "ada", Role: Viewer})
	page := h.settled("/a/main/proxies")
	if got := lists(page); strings.Join(got[:4], " ") != "px_soon px_1 px_2 px_later_000" {
		t.Errorf("the first are %v", got[:4])
	}
	wants(t, page, "in review", "due")
	for filter, want := range map[string]string{
		"q=OO": "px_soon", "q=px_never": "px_never", "q=none": "", "q=px_never&country=de": "", "q=px_never&within=24h": "", "country=us&q=1&within=4h": "px_1", "country=de": "", "label=team%3Dshop": "", "schedule=rest": "px_2",
		"state=due": "px_soon", "state=in+review": "px_1", "state=renewing": "px_2", "state=not+scheduled": "", "state=due&schedule=rest": "", "due=2026-11-21&q=soon": "px_soon",
	} {
		if got := strings.Join(lists(h.settled("/a/main/proxies?"+filter)), " "); got != want {
			t.Errorf("%s lists %q", filter, got)
		}
	}
	wants(t, h.settled("/a/main/proxies?label=shop"), "write it as team=shop")
	for filter, says := range map[string]string{
		"from=soon": "“soon” is not a day", "from=2026-11-21&until=31": "“31” is not a day", "due=today": "“today” is not a day", "within=-1h": "“-1h” is not a time", "state=gone": "“gone” is not a state",
	} {
		page := h.settled("/a/main/proxies?" + filter)
		if wants(t, page, strings.NewReplacer("“", "&#34;", "”", "&#34;").Replace(says)); len(lists(page)) > 0 || strings.Contains(page, "What expires") {
			t.Errorf("%s lists %v", filter, lists(page))
		}
	}
	more := regexp.MustCompile(`href="([^"]+)" rel="next"`).FindStringSubmatch(h.settled("/a/main/proxies?q=LATER&country=US&schedule=keep"))
	if len(more) != 2 || !strings.Contains(more[1], "q=LATER") || !strings.Contains(more[1], "schedule=keep") {
		t.Fatalf("the next page is %q", more)
	}
	rest := h.settled("/a/main/proxies" + strings.ReplaceAll(more[1], "&amp;", "&"))
	if got := lists(rest); strings.Join(got, " ") != fmt.Sprintf("px_later_%03d", proxiesShown) {
		t.Errorf("the rest is %v", got)
	}
	wants(t, rest, `href="?country=US&amp;q=LATER&amp;schedule=keep&amp;within=72h"`, `name="q" value="LATER"`)
}

// Its days link to their proxies.
func TestTheCalendarSaysWhatExpiresAndWhatItCosts(t *testing.T) {
	h := newRig(t)
	h.stock(map[string]int{"px_a": 24 * 20, "px_b": 24*20 + 1, "px_2": 24 * 21, "px_edge": 12})
	h.renewed("paid", "px_a", 450, noon)
	h.signIn(h.client, Person{Name: "ada", Role: Viewer})
	page := h.settled("/a/main/calendar?month=2026-12")
	wants(t, page, "3 expire", "9.00 USD", "1 not scheduled", `href="/a/main/proxies?from=2026-12-11&amp;until=2026-12-12"`, "1 expire on 2026-12-12, 1 of them not scheduled",
		`href="/a/main/calendar?month=2026-11"`, `href="/a/main/calendar?month=2027-01"`)
	rolling := h.settled("/a/main/calendar") // today is Saturday, 21 November
	wants(t, rolling, "Expiries in this week and the next five", "16 Nov", "1 Dec", "2 expire on 2026-12-11", `href="/a/main/calendar?month=2026-11"`, `href="/a/main/calendar?month=2026-12"`)
	if days := strings.Count(rolling, `<td role="cell"`); days != 42 || strings.Contains(rolling, "28 December") {
		t.Errorf("%d days:\n%s", days, rolling)
	}
	if strings.Contains(page, "of it") {
		t.Error("a schedule that runs is called paused")
	}
	day := h.settled("/a/main/proxies?from=2026-12-11&until=2026-12-12")
	if got := lists(day); strings.Join(got, " ") != "px_a px_b" {
		t.Errorf("the day lists %v", got)
	}
	if n := strings.Count(day, `<td class="n">4.50 USD</td>`); n != 2 { // its own price, and the price of its kind
		t.Errorf("%d prices:\n%s", n, day)
	}
	if got := lists(h.settled("/a/main/proxies?from=2026-11-21&until=2026-11-22")); strings.Join(got, " ") != "px_1" { // midnight belongs to the next day
		t.Errorf("today lists %v", got)
	}
	if got := lists(h.settled("/a/main/proxies?due=2026-12-08")); strings.Join(got, " ") != "px_a px_b" { // 72 hours before the expiry; px_2 is an exception
		t.Errorf("due is %v", got)
	}
	if got := lists(h.settled("/a/main/proxies?due=2026-11-21")); strings.Join(got, " ") != "px_1 px_edge" {
		t.Errorf("due today is %v", got)
	}
}

// The first sentence of its page gives the reason.
func TestAProxySaysWhyItIsNotRenewed(t *testing.T) {
	h := newRig(t)
	h.stock(map[string]int{"px_ok": 200, "px_due": 5, "px_left": 6, "px_2": 50, "px_retired": 10, "px_paid": 8, "px_new": 9, "px_failed": 9})
	h.renewed("paid", "px_paid", 450, noon.Add(8*time.Hour))
	h.renewed("new", "px_new", 450, noon.Add(9*time.Hour))
	h.settles("failed", fact.Line{ProxyID: "px_failed", State: fact.LineFailed, ChargedCents: 411, RefundedCents: 411}, noon.Add(9*time.Hour))
	check(t, h.main.Write(t.Context(), func(tx *ledger.Tx) error {
		if err := tx.Append(fact.ProxyRetired{ProxyID: "px_retired", By: "ada", Reason: "let go"}); err != nil {
			return err
		}
		if err := errors.Join(tx.Stale("px_new"), tx.Stale("px_failed")); err != nil {
			return err
		}
		return tx.Observe(1, tables.Proxy{ProxyID: "px_never", SeenAt: noon}, tables.Proxy{ProxyID: "px_paid", CountryCode: "US", ExpiresAt: new(noon.Add(8 * time.Hour)), SeenAt: noon})
	}))
	status := schedules.Status{Schedule: "keep", Account: "main", Cron: "@hourly", Timezone: "UTC"}
	h.main.answer["sweeps"] = []schedules.Status{status}
	h.main.answer["plan"] = plans.Plan{Schedule: "keep", LeftOut: []plans.LeftOut{{ProxyID: "px_left", Reason: plans.ReasonWallet}}}
	h.signIn(h.client, Person{Name: "ada", Role: Viewer})
	for id, want := range map[string]string{
		"px_ok":      "It is not due yet: its schedule renews it in time. · next run 2026-11-26 20:00:00 UTC",
		"px_due":     "It is due: the next run renews it. · next run 2026-11-21 12:00:00 UTC",
		"px_left":    "It is due, and a run now would skip it: the wallet is too low.",
		"px_1":       "It is not renewed: an earlier renewal is in review",
		"px_2":       "It is not renewed: its renewal is on hold: ",
		"px_retired": "It is not renewed: it was retired",
		"px_never":   "It is not renewed: its expiry is not known",
		"px_failed":  "Its last renewal ended without renewing it: ",
		"px_new":     "It was renewed, and no listing has shown the new expiry yet.",
		"px_paid":    "Schedules skip it: a renewal for this expiry was paid",
	} {
		wants(t, h.settled("/a/main/proxy?id="+id), want)
	}
	wants(t, h.settled("/a/main/proxy?id=px_paid"), "4.50 USD", "0.15 USD", "2026-12-21 20:00:00 UTC") // the total, the price for a day, and the expiry that it paid for
	check(t, h.main.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(fact.SchedulePaused{Schedule: "keep", By: "bob", Reason: "holidays"})
	}))
	wants(t, h.settled("/a/main/proxy?id=px_due"), "It is not renewed while its schedule is paused, by bob: holidays.")
	check(t, h.main.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(fact.ScheduleResumed{Schedule: "keep", By: "bob", Reason: "back"}, fact.AccountPaused{Scope: "account", Cause: "person", Detail: "by ada: the provider is being moved"})
	}))
	wants(t, h.settled("/a/main/proxy?id=px_due"), "It is not renewed while nothing is sent: the account is paused: by ada: the provider is being moved")
	check(t, h.main.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(fact.AccountResumed{Scope: "account", Cause: "person", Detail: "by ada: it was"})
	}))
	delete(h.main.answer, "sweeps")
	wants(t, h.settled("/a/main/proxy?id=px_ok"), "Whether its schedule runs is not known (the runner says no to sweeps)")
}

// The page lists each proxy of the plan with its expiry and its estimated price.
func TestAScheduleSaysItsRulesAndWhatItsApprovalRenews(t *testing.T) {
	h := newRig(t)
	h.main.schedules[0].BudgetCents, h.main.schedules[0].ApproveOverCents = 1000, 500
	h.stock(map[string]int{"px_a": 2})
	check(t, h.main.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(fact.SweepPlanned{Schedule: "keep", Slot: noon, Plan: "9f86d081", Due: 3, EstimateCents: 700, UnknownPrice: 1,
			Commands: []json.RawMessage{
				json.RawMessage(`{"proxy_ids":["px_1","px_a"],"expect_expires_at":{"px_1":"2026-11-21T15:00:00Z","px_a":"2026-11-21T14:00:00Z"}}`),
				json.RawMessage(`{"proxy_ids":["px_none"],"expect_expires_at":{"px_none":"2026-11-21T16:00:00Z"}}`),
			},
			Planned: []fact.PlannedCommand{{CommandID: "c", Proxies: 2, EstimateCents: 700}, {CommandID: "d", Proxies: 1, UnknownPrice: 1}}},
			fact.SweepHeld{Schedule: "keep", Slot: noon, Plan: "9f86d081", Code: fact.SweepHeldApproval},
			// A later run finds the same plan on hold and does not store it again.
			fact.SweepPlanned{Schedule: "keep", Slot: noon.Add(time.Hour), Plan: "9f86d081", Due: 3, Commands: []json.RawMessage{}},
			fact.SweepHeld{Schedule: "keep", Slot: noon.Add(time.Hour), Plan: "9f86d081", Code: fact.SweepHeldApproval})
	}))
	h.signIn(h.client, Person{Name: "ada", Role: Operator})
	page := h.settled("/a/main/schedule?id=keep")
	wants(t, page, "Renews proxies: except px_2", "Due 3 days before a proxy expires", "For 30 days", "Runs every hour, UTC", "Budget at most 10.00 USD a run", "Approval needed over 5.00 USD a run", "@hourly",
		"px_none 2026-11-21 16:00:00 UTC in 4 hours unknown", "3.50 USD", "Approve", "Decline", "Once it is declined, the next run plans again what is due then")
	wants(t, page, "Plan needs approval: at least 7.00 USD (1 of unknown price) for 3 proxies")
	if got := lists(page); strings.Join(got, " ") != "px_a px_1 px_none" {
		t.Errorf("the approval lists %v", got)
	}
	h.main.answer["approve"] = verbs.Changed{Changed: 1}
	_, raw, _ := h.get("/a/main/schedule?id=keep")
	_, done := h.post(h.client, "/a/main/change/approve", h.server.URL, map[string]string{"form": formOf(t, raw), "id": "9f86d081", "reason": "checked"})
	wants(t, done, "Done: the plan was approved (9f86d081).", "3 renewals published, about at least 7.00 USD (1 of unknown price).")
}

// Each page also says where the other due proxies of the run are.
func TestAPlanCountsTheSameEverywhere(t *testing.T) {
	held := func(of *time.Time, f fact.SweepPlanned) []fact.Fact {
		f.Schedule, f.Plan, f.Of = "keep", "9f86d081", of
		return []fact.Fact{f, fact.SweepHeld{Schedule: "keep", Slot: f.Slot, Plan: f.Plan, Code: fact.SweepHeldApproval}}
	}
	began := noon.Add(-time.Minute)
	canary := fact.Ref{CommandID: "canary", OperationID: "canary/0001"}
	for name, c := range map[string]struct {
		facts            []fact.Fact
		says, also, asks string
	}{
		"a canary was renewed": {
			append([]fact.Fact{
				fact.SweepPlanned{Schedule: "keep", Slot: began, Plan: "first", Due: 4, UnknownPrice: 1, Commands: []json.RawMessage{json.RawMessage(`{"id":"canary","proxy_ids":["px_0"]}`)}, Planned: []fact.PlannedCommand{{CommandID: "canary", Proxies: 1, UnknownPrice: 1}}},
				fact.SweepFinished{Schedule: "keep", Slot: began, Plan: "first"},
				fact.CommandAccepted{Ref: fact.Ref{CommandID: "canary"}, Kind: fact.KindRenewal, Content: json.RawMessage(`{}`), DurationDays: 30, Operations: []fact.Planned{{OperationID: "canary/0001", Chunk: "1", Generation: 1, Key: "k", ProxyIDs: []string{"px_0"}}}},
				fact.OperationSending{Ref: canary, Attempt: 1, Key: "k", Body: "{}", SentAt: noon},
				fact.RenewalSettled{Ref: canary, Status: "completed", Attempt: 1, Lines: fact.Lines{ChargedCents: 300, Items: []fact.Line{{ProxyID: "px_0", State: fact.LineSucceeded, ChargedCents: 300}}}},
			}, held(&began, fact.SweepPlanned{Slot: noon, Due: 3, EstimateCents: 900, Commands: []json.RawMessage{json.RawMessage(`{"id":"c","proxy_ids":["px_1","px_3","px_4"]}`)}, Planned: []fact.PlannedCommand{{CommandID: "c", Proxies: 3, EstimateCents: 900}}})...),
			"needs approval: 9.00 USD for 3 proxies", "1 renewed already in this run for 3.00 USD.", "Approve 9.00 USD<",
		},
		"a price is unknown": {
			held(nil, fact.SweepPlanned{Slot: noon, Due: 2, UnknownPrice: 1, Left: &fact.SweepLeft{Proxies: 1, Unpriced: 1}, Commands: []json.RawMessage{json.RawMessage(`{"id":"c","proxy_ids":["px_1"]}`)}, Planned: []fact.PlannedCommand{{CommandID: "c", Proxies: 1, UnknownPrice: 1, ListPriceCents: 420}}}),
			"needs approval: 4.20 USD (list price) for 1 proxy", "1 follows when the price is known; this approval does not cover them.", "Approve 4.20 USD (list price)<",
		},
	} {
		h := newRig(t)
		h.main.answer["sweeps"] = []schedules.Status{{Schedule: "keep", Account: "main", Cron: "@hourly", Timezone: "UTC"}}
		check(t, h.main.Write(t.Context(), func(tx *ledger.Tx) error { return tx.Append(c.facts...) }))
		h.signIn(h.client, Person{Name: "ada", Role: Operator})
		for _, path := range []string{"/a/main/attention", "/a/main/overview", "/a/main/schedule?id=keep"} {
			page := h.settled(path)
			if wants(t, page, c.says, c.also); strings.Contains(page, " due.") || strings.Contains(page, "unknown amount") {
				t.Errorf("%s: %s has other words:\n%s", name, path, page)
			}
		}
		wants(t, h.settled("/a/main/schedule?id=keep"), c.asks)
	}
}

// The proxies that the old plan left out may have been renewed since. The page keeps the plan for a
// while, because computing it takes long.
func TestAPlanFromBeforeTheLastRunGivesNoReason(t *testing.T) {
	h := newRig(t)
	h.stock(map[string]int{"px_left": 20})
	h.main.answer["sweeps"] = []schedules.Status{{Schedule: "keep", Account: "main", Cron: "@hourly", Timezone: "UTC"}}
	leaves := func(reason string) plans.Plan {
		return plans.Plan{Schedule: "keep", LeftOut: []plans.LeftOut{{ProxyID: "px_left", Reason: reason}}}
	}
	h.main.answer["plan"] = leaves(plans.ReasonDay)
	h.pages.figures.all[figureKey{"main", "plan keep"}] = &figure{value: leaves(plans.ReasonWallet), at: noon, tried: noon, took: time.Minute, asked: noon}
	h.signIn(h.client, Person{Name: "ada", Role: Viewer})
	wants(t, h.settled("/a/main/proxy?id=px_left"), "It is due, and a run now would skip it: the wallet is too low.")
	h.wait(time.Minute)
	check(t, h.main.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(fact.SweepPlanned{Schedule: "keep", Slot: noon, Plan: "new", Due: 1}, fact.SweepFinished{Schedule: "keep", Slot: noon, Plan: "new"})
	}))
	wants(t, h.settled("/a/main/proxy?id=px_left"), "It is due, and a run now would skip it: over the budget of the day.")
}

// The changes are those since the last plan.
func TestAPlanSaysPricesAndWhatChanged(t *testing.T) {
	h := newRig(t)
	check(t, h.main.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(fact.SweepPlanned{Schedule: "keep", Slot: noon, Plan: "old", Due: 2, EstimateCents: 700, Commands: []json.RawMessage{
			json.RawMessage(`{"proxy_ids":["px_1","px_gone"]}`)},
			Planned: []fact.PlannedCommand{{CommandID: "c", Proxies: 2, EstimateCents: 700}}},
			fact.SweepHeld{Schedule: "keep", Slot: noon, Plan: "old", Code: fact.SweepHeldApproval})
	}))
	h.main.answer["sweeps"] = []schedules.Status{{Schedule: "keep", Account: "main", Cron: "@hourly", Timezone: "UTC"}}
	h.main.answer["plan"] = plans.Plan{Schedule: "keep", Hash: "new", Due: 3, Currency: "USD", EstimateCents: fact.Known(900), LeftOutCounts: map[string]int{plans.ReasonBudget: 1},
		Included: []plans.Included{{ProxyID: "px_1", EstimateCents: fact.Known(500), PriceFrom: plans.PriceOwn}, {ProxyID: "px_new", EstimateCents: fact.Known(400), PriceFrom: plans.PriceKind}},
		LeftOut:  []plans.LeftOut{{ProxyID: "px_out", Reason: plans.ReasonBudget}}}
	h.signIn(h.client, Person{Name: "ada", Role: Viewer})
	wants(t, h.settled("/a/main/schedule?id=keep&plan=1"), "Compared with the plan that needs approval: 1 more due (", "), 1 no longer due (", "), 1 dearer, 2.00 USD more.", plans.PriceKind, "px_out",
		"Sat 2026-11-21 13:00:00 UTC", "Sat 2026-11-21 17:00:00 UTC", `href="/a/main/operations?schedule=keep"`)
}

// While the first renewals of a run find out the price, its other proxies are neither renewed nor
// skipped.
func TestARunThatContinuesIsNotShownAsFinished(t *testing.T) {
	s := schedules.Status{Schedule: "keep", State: "finished", Result: &tables.SlotResult{Outcome: "finished"}, Left: &fact.SweepLeft{Proxies: 2, Unpriced: 2}}
	for _, want := range []string{"continues", "finished"} {
		var out strings.Builder
		check(t, pages()["schedules"].ExecuteTemplate(&out, "schedulestate", s))
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s is shown as %s", want, out.String())
		}
		s.Left = nil
	}
}
