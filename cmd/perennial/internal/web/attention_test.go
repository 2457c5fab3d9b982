package web

import (
	"bytes"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs"
	"perennial/jobs/reconcile"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/schedules"
)

// The number comes from the runner, and is unknown if the runner does not report it. The list has
// one action for each item.
func TestEveryPageHasTheNavigationWithItsNumber(t *testing.T) {
	h := newRig(t)
	h.signIn(h.client, Person{Name: "ada", Role: Operator})
	if page := h.settled("/a/main/money"); !strings.Contains(page, `Attention <span class="badge unknown">`) {
		t.Errorf("a number that is not known is shown:\n%s", page)
	}
	h = newRig(t)
	h.signIn(h.client, Person{Name: "ada", Role: Operator})
	one := int64(1)
	h.main.answer["summary"] = verbs.Summary{Needs: verbs.Needs{Total: 1, Uncovered: &one}}
	check(t, h.main.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(
			fact.SweepPlanned{Schedule: "keep", Slot: noon, Plan: "9f86d081", Due: 3, EstimateCents: 1080, Commands: []json.RawMessage{json.RawMessage(`{"id":"c","proxy_ids":["px_1","px_3","px_4"]}`)}, Planned: []fact.PlannedCommand{{CommandID: "c", Proxies: 3, EstimateCents: 1080}}},
			fact.SweepHeld{Schedule: "keep", Slot: noon, Plan: "9f86d081", Code: fact.SweepHeldApproval, Reason: "over the limit"},
			fact.AccountPaused{Scope: "account", Cause: "person", Detail: "by root: maintenance"})
	}))
	h.main.paused = "paused (account, person): maintenance"
	for _, path := range paths {
		if !strings.HasPrefix(path, "/a/main/") {
			continue
		}
		_, page, _ := h.get(path)
		for _, name := range []string{"overview", "operations", "attention", "schedules", "proxies", "calendar", "money", "log"} {
			if !strings.Contains(page, `<a href="/a/main/`+name+`"`) {
				t.Errorf("%s has no link to %s", path, name)
			}
		}
		if !strings.Contains(page, `</span>6<span class="heard"> need you`) || strings.Count(page, `aria-current="page"`) != 1 {
			t.Errorf("%s does not say that 6 need a person, or where it is", path)
		}
		if strings.Count(page, "main · paused by root since 12:00 UTC: maintenance") != 1 || strings.Contains(page, "(account, person)") || strings.Contains(page, "main · active") {
			t.Errorf("%s does not say once that the account is paused", path)
		}
	}
	page := h.settled("/a/main/attention")
	wants(t, page, `href="/a/main/operation?id=r1%2F0001#review">Resolve`, "at an unknown price", `href="/a/main/schedule?id=keep">Review plan`, "The plan needs approval: 10.80 USD for 3 proxies.",
		`href="/a/main/dead">Open`, `href="/a/main/proxies?uncovered=1">Open`, "maintenance", "Resume the account")
	if strings.Contains(page, "Attention</a> has") {
		t.Error("the page of attention leads to itself")
	}
	_, page, _ = h.get("/a/main/overview")
	wants(t, page, `<a href="/a/main/attention#paused">Attention</a> has the button to resume it.`)
	page = h.settled("/a/main/attention")
	if strings.Count(page, "<li>") != 6 {
		t.Errorf("not one entry for each:\n%s", page)
	}
}

// All three show a change immediately, even if the runner's answer is old.
func TestBadgeCardAndListCountTheSame(t *testing.T) {
	h := newRig(t)
	h.signIn(h.client, Person{Name: "ada", Role: Operator})
	h.main.letters = nil
	h.main.answer["sweeps"] = []schedules.Status{{Schedule: "keep", Account: "main"}}
	h.main.answer["summary"] = verbs.Summary{}
	page := h.settled("/a/main/overview")
	wants(t, page, "1 review", "1 operation on hold")
	h.main.mu.Lock()
	h.main.silent = true // the runner answers nothing newer
	h.main.mu.Unlock()
	h.main.letters = []Letter{{Seq: 7}}
	check(t, h.main.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(
			fact.SweepPlanned{Schedule: "keep", Slot: noon, Plan: "9f86d081", Due: 3, EstimateCents: 1080},
			fact.SweepHeld{Schedule: "keep", Slot: noon, Plan: "9f86d081", Code: fact.SweepHeldApproval, Reason: "over the limit"})
	}))
	h.pages.figures.mu.Lock() // an answer that took an hour is not requested again
	for _, one := range h.pages.figures.all {
		one.took = time.Hour
	}
	h.pages.figures.mu.Unlock()
	_, page, _ = h.get("/a/main/overview")
	wants(t, page, "1 plan to approve", "1 dead letter", `</span>4<span class="heard"> need you`)
	if list := strings.Count(page, `<li><span class="state warn">`) + strings.Count(page, `<li><span class="state bad">`); list != 4 || !strings.Contains(page, `attention">4</a>`) {
		t.Errorf("the card has another number than the list of %d:\n%s", list, page)
	}
}

// The skipped proxies expire although a schedule covers them.
func TestProxiesThatABudgetSkipsNeedAPerson(t *testing.T) {
	h := newRig(t)
	h.signIn(h.client, Person{Name: "ada", Role: Viewer})
	h.main.answer["sweeps"] = []schedules.Status{{Schedule: "keep", Account: "main", Cron: "@hourly", Timezone: "UTC", LastSlot: &noon, State: "finished", StillOverLimit: 2,
		Result: &tables.SlotResult{Outcome: tables.OutcomeOverBudget, Due: new(int64(4)), Renewed: 2, Skipped: 2, OverLimit: 2, Reason: "daily_budget_cents exceeded"}}}
	h.main.answer["summary"] = verbs.Summary{}
	wants(t, h.settled("/a/main/attention"), "Skipped", "daily_budget_cents exceeded", `href="/a/main/schedule?id=keep#skipped"`)
}

// The page also keeps the pause's reason and the last run's reason apart.
func TestANextRunOfAPausedAccountSaysThatNothingIsSent(t *testing.T) {
	h := newRig(t)
	h.signIn(h.client, Person{Name: "ada", Role: Viewer})
	next, due := noon.Add(time.Minute), int64(2)
	one := schedules.Status{Schedule: "keep", Account: "main", Cron: "@hourly", Timezone: "UTC", LastSlot: &noon, State: "finished", NextSlot: &next, Result: &tables.SlotResult{Outcome: tables.OutcomeDeclined, Due: &due, Reason: "by root: too early"}}
	h.main.answer["sweeps"] = []schedules.Status{one}
	const nothing = "paused: nothing is sent"
	paths := []string{"/a/main/overview", "/a/main/schedules", "/a/main/schedule?id=keep"}
	for _, path := range paths {
		page := h.settled(path)
		if wants(t, page, "in 1 minute", "declined by root: too early"); strings.Contains(page, nothing) {
			t.Errorf("%s: nothing is paused", path)
		}
	}
	check(t, h.main.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(fact.AccountPaused{Scope: "account", Cause: "person", Detail: "by root: maintenance"})
	}))
	for _, path := range paths {
		wants(t, h.settled(path), nothing)
	}
	until := noon.Add(time.Hour)
	check(t, h.main.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(fact.SchedulePaused{Schedule: "keep", Until: &until, By: "root", Reason: "not now"})
	}))
	wants(t, h.settled("/a/main/schedules"), "Paused by root: not now Last run: declined by root: too early")
}

// Only an operator can pause the account.
func TestTheAccountIsPausedOnThePageOfAttention(t *testing.T) {
	for role, may := range map[Role]bool{Operator: true, Viewer: false} {
		h := newRig(t)
		h.signIn(h.client, Person{Name: "ada", Role: role})
		if page := h.settled("/a/main/attention"); strings.Contains(page, `action="/a/main/change/pause"`) != may || strings.Contains(page, "Resume the account") {
			t.Errorf("%s:\n%s", role, page)
		}
		check(t, h.main.Write(t.Context(), func(tx *ledger.Tx) error {
			return tx.Append(fact.AccountPaused{Scope: "account", Cause: "person", Detail: "by root: maintenance"})
		}))
		page := h.settled("/a/main/attention")
		if wants(t, page, "main · paused by root since 12:00 UTC: maintenance"); strings.Contains(page, "Resume the account") != may {
			t.Errorf("%s, paused:\n%s", role, page)
		}
	}
}

// "0.00 off" would suggest that nothing is wrong.
func TestADifferenceThatFindingsExplainIsNoneOfTheWallet(t *testing.T) {
	x := jobs.LastReconciliation{At: noon, OK: new(false), Findings: 1, DifferenceCents: new(int64(0))}
	if text := ReconciledText(x, "USD"); strings.Contains(text, "off") || !strings.HasPrefix(text, "1 finding, ") {
		t.Error(text)
	}
	x.DifferenceCents = new(int64(-540))
	if text := ReconciledText(x, "USD"); !strings.HasPrefix(text, "1 finding, the wallet is -5.40 USD off, ") {
		t.Error(text)
	}
}

// The card is green only if ledger and provider agree to the cent, and shows an amount only if it
// is known.
func TestTheBooksCardSaysWhatWasCompared(t *testing.T) {
	yes, no := true, false
	compared := func(ok *bool, provider, off int64) *jobs.LastReconciliation {
		x := &jobs.LastReconciliation{At: noon, OK: ok, ProviderCents: &provider, DifferenceCents: &off}
		if ok != nil && !*ok {
			x.Findings = 1
		}
		return x
	}
	open := &tables.Unbooked{Operations: 1}
	for _, c := range []struct {
		says, level string
		card        booksView
	}{
		{"unknown", "", booksView{}},
		{"Not compared yet", "", booksView{Compared: &jobs.LastReconciliation{}}},
		{"They differed before the runner started", "bad", booksView{Compared: &jobs.LastReconciliation{}, Differed: true}},
		{"Not comparable now", "", booksView{Compared: compared(nil, 900, 0)}},
		{"1.00 USD unexplained", "bad", booksView{Compared: compared(&no, 900, -100)}},
		{"They differ", "bad", booksView{Compared: compared(&no, 900, 0)}},
		{"Equal now: compare again", "bad", booksView{Compared: compared(&no, 900, -100), Changed: true, LastRead: &walletRead{noon, 1000}}},
		{"They differed; changed since the check", "bad", booksView{Compared: compared(&no, 1000, 0), Changed: true, LastRead: &walletRead{noon, 1000}}},
		{"They differed; changed since the check", "bad", booksView{Compared: compared(&no, 900, 0), Changed: true}},
		{"Changed since the check", "", booksView{Compared: compared(&yes, 900, 0), Changed: true}},
		{"1.00 USD unconfirmed", "warn", booksView{Compared: compared(&yes, 900, 0), Balance: tables.Balance{Unbooked: open}}},
		{"They agree", "ok", booksView{Compared: compared(&yes, 1000, 0)}},
	} {
		c.card.Balance.WalletCents, c.card.Balance.Currency = 1000, "USD"
		var page bytes.Buffer
		check(t, pages()["overview"].ExecuteTemplate(&page, "layout", view{Account: "main", Now: noon, Data: accountCard{booksView: c.card}}))
		if card := regexp.MustCompile(`(?s)card (\w*)" aria-labelledby="card-books">.*?<p class="big"><a [^>]*>([^<]*)</a>`).FindStringSubmatch(page.String()); len(card) != 3 || card[1] != c.level || card[2] != c.says {
			t.Errorf("%s, %q: %q", c.says, c.level, card)
		}
		page.Reset()
		check(t, pages()["money"].ExecuteTemplate(&page, "layout", view{Account: "main", Now: noon, Data: moneyView{booksView: c.card}}))
		if !strings.Contains(page.String(), ">"+c.says+"</h2>") {
			t.Errorf("the page of the money does not say %q:\n%s", c.says, page.String())
		}
	}
}

// While an operation is in progress, the wallets differ without an error.
func TestTheBooksCardShowsADifferenceOnlyAfterAnAnswer(t *testing.T) {
	read := &walletRead{noon, 580}
	for want, v := range map[int64]booksView{
		-400: {LastRead: read, Answered: true},
		-420: {LastRead: read, Answered: true, Since: -20},
		0:    {LastRead: read, Changed: true},
	} {
		v.Balance.WalletCents = 980
		if got := v.Difference(); got != want {
			t.Errorf("%+v: %d, want %d", v, got, want)
		}
	}
}

// An operator's comparison on the page counts before the runner's answer includes it.
func TestTheHeadlineIsOfTheNewestComparison(t *testing.T) {
	h := newRig(t)
	h.signIn(h.client, Person{Name: "ada", Role: Operator})
	before, one := noon.Add(-time.Hour), int64(1)
	h.main.answer["show"] = verbs.AccountView{Reconciled: jobs.LastReconciliation{At: before, OK: new(false), Findings: 1, DifferenceCents: new(int64(-400)), ProviderCents: new(int64(499_600))}}
	h.main.answer["summary"] = verbs.Summary{Needs: verbs.Needs{Findings: &one}, Books: verbs.Books{ComparedAt: &before, Agree: new(false), ChangedSince: true}}
	page := h.settled("/a/main/overview")
	wants(t, page, "4.00 USD unexplained", "1 difference from the provider")
	h.wait(time.Minute)
	h.main.answer["reconcile"] = reconcile.Reconciliation{At: h.clock(), OK: new(true), Quiet: true, Wallet: reconcile.WalletCheck{ProviderCents: 500_000, BookCents: 500_000}}
	if code, _ := h.post(h.client, "/a/main/check/reconcile", h.server.URL, map[string]string{"form": formOf(t, page)}); code != http.StatusSeeOther {
		t.Fatal(code)
	}
	wants(t, h.shows("/a/main/money", "Books and provider agree to the cent"), ">They agree</h2>")
	page = h.settled("/a/main/overview")
	wants(t, page, ">They agree</a>")
	if strings.Contains(page, "difference from the provider") {
		t.Error("a difference that was solved is still listed")
	}
	h.wait(time.Minute)
	lost := fact.Ref{CommandID: "o9", OperationID: "o9/1"}
	check(t, h.main.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(
			fact.CommandAccepted{Ref: fact.Ref{CommandID: "o9"}, Kind: fact.KindOrder, Content: []byte(`{}`), Operations: []fact.Planned{{OperationID: "o9/1", Chunk: "1", Generation: 1, Key: "k9"}}},
			fact.OperationSending{Ref: lost, Attempt: 1, Key: "k9", Body: "{}", SentAt: noon},
			fact.OperationReview{Ref: lost, Attempt: 1, Ambiguous: true, Reason: "lost"},
			fact.OperationResolved{Ref: lost, Outcome: "not_charged", By: "ada", Reason: "no order"})
	}))
	wants(t, h.settled("/a/main/money"), ">Changed since the check</h2>") // an answer that books nothing may be wrong too
	check(t, h.main.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(fact.LedgerRecorded{Movement: "top-up", AmountCents: 100, By: "ada", Reason: "x"})
	}))
	wants(t, h.settled("/a/main/money"), ">Changed since the check</h2>", "Booked in the ledger since then 1.00 USD")
}

// The page shows the last reading with its age.
func TestTheProvidersWalletIsKnownAfterAStart(t *testing.T) {
	h := newRig(t)
	h.signIn(h.client, Person{Name: "ada", Role: Viewer})
	h.main.answer["show"] = verbs.AccountView{}
	wants(t, h.settled("/a/main/overview"), "Provider's wallet not read yet")
	check(t, h.main.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(fact.LedgerReconciled{ProviderCents: 499_000, WalletCents: 500_000})
	}))
	h.wait(2 * time.Hour)
	wants(t, h.settled("/a/main/overview"), "Provider's wallet, 2 hours ago 4,990.00 USD")
}

// The answer also says that nothing changed.
func TestAChangeSaysWhatItChanged(t *testing.T) {
	none, one, due, cents := 0, 1, 4, int64(496880)
	for want, x := range map[string]changeAnswer{
		"":                                    {Changed: &one},
		"4 due, 2 renewals published.":        {Due: &due, State: "finished", Included: make([]json.RawMessage, 2)},
		"4 due. The plan needs approval":      {Due: &due, State: "held"},
		"The ledger balance is 4,968.80 USD.": {Changed: &one, Currency: "USD", WalletCents: &cents},
		"it was paused already":               {Changed: &one, Warning: "it was paused already"},
	} {
		if said, err := x.said(); err != nil || !strings.HasPrefix(said, want) || want == "" && said != "" {
			t.Errorf("%q, %v, want %q", said, err, want)
		}
	}
	if _, err := (changeAnswer{Changed: &none, Warning: "the account is paused already"}).said(); err == nil || err.Error() != "nothing was changed: the account is paused already" {
		t.Errorf("%v", err)
	}
}
