package web

import (
	"bytes"
	"strings"
	"testing"

	"perennial/cmd/perennial/internal/webhook"
	"perennial/jobs"
	"perennial/jobs/inspect"
	"perennial/jobs/reconcile"
	"perennial/ledger"
	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/report"
	"perennial/ledger/tables"
	"perennial/schedules"
	"perennial/schedules/plans"
	"perennial/testdata/hostile"
)

// Text from others creates no tag on any page.
func FuzzHostileTextOnPages(f *testing.F) {
	shown := func(t *testing.T, text string) string {
		t.Helper()
		var all bytes.Buffer
		for name, data := range hostileData(text) {
			v := view{Title: text, Section: name, Person: Person{Name: text, Role: Operator}, Accounts: []string{text}, Account: text, Pages: []pageLink{{text, text, text, text}}, CanAct: true, Command: text, Now: noon, Data: data}
			if err := pages()[name].ExecuteTemplate(&all, "layout", v); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		return all.String()
	}
	hostile.Fuzz(f, func(t *testing.T, text string) {
		if text == "" {
			return // the page shows nothing for it
		}
		if got, want := strings.Count(shown(t, text), "<"), strings.Count(shown(t, "plain"), "<"); got != want {
			t.Errorf("%q makes tags on a page", text)
		}
	})
}

// hostileData returns the data of each page, with the text in every text field.
func hostileData(text string) map[string]any {
	labels := map[string]string{text: text}
	status := schedules.Status{Schedule: text, Cron: text, Timezone: text, State: text, Plan: text, Why: text, Problem: text, Removed: text, Paused: &tables.SchedulePause{By: text, Reason: text}}
	o := inspect.OperationStatus{OperationID: text, CommandID: text, State: fact.State(text), Kind: fact.Kind(text), Reason: text, OrderNo: text, Currency: text, Lines: []tables.RenewalLine{{ProxyID: text, State: fact.LineState(text)}}, ProxyIDs: []string{text}}
	p := tables.Proxy{ProxyID: text, Status: text, IPType: text, Protocol: text, CountryCode: text, Region: text, LineName: text, Labels: labels}
	return map[string]any{
		"failed": text, "login": loginView{Next: text, Wrong: text, Tokens: true, Code: text, As: Person{Name: text, Role: Role(text)}, Now: Person{Name: text}},
		"overview": accountCard{Name: text, Role: text, Broken: text, Problems: []Check{{Name: text, Detail: text}}, Schedules: []schedules.Status{status}, booksView: booksView{Compared: &jobs.LastReconciliation{Failed: text}}, List: attentionView{Needs: []need{{text, text, text, text, text, text}}}, NoRunner: "",
			Forecast: Made[schedules.Forecast]{At: noon, Err: text, Value: schedules.Forecast{RunsOutOn: text, WalletCents: new(int64), Currency: text, Days: []schedules.ForecastDay{{Day: text}}, FailsFirst: &schedules.ForecastSweep{Schedule: text}}},
			Expiries: Made[[]bucket]{At: noon, Value: []bucket{{Name: text, From: text, Until: text}}}, Provider: &jobs.ProviderRecent{Codes: map[string]int64{text: 1}}},
		"accounts":   []accountCard{{Name: text, Role: text, Broken: text, Problems: []Check{{Name: text, Detail: text}}, Forecast: Made[schedules.Forecast]{Value: schedules.Forecast{RunsOutOn: text}}}},
		"attention":  attentionView{Needs: []need{{text, text, text, text, text, text}}, Paused: []tables.Pause{{Scope: text, Cause: text, Detail: text}}},
		"confirm":    confirmView{Why: text, Currency: text, Fields: map[string]string{"reason": text, "id": text}},
		"operations": &operationsView{Label: text, Schedule: text, From: text, Wrong: "", Schedules: []string{text}, Rows: []operationRow{{o, text}}, Older: "?before=1"},
		"operation": &operationView{
			Evidence: inspect.Evidence{OperationStatus: o, History: []inspect.HistoryEntry{{Type: text, Code: text, TraceID: text, Text: text}}, Notes: []string{text}, Verdict: &inspect.Verdict{Text: text, OrderNo: text}, Expiries: []inspect.ExpiryEvidence{{ProxyID: text, State: text}}, Orders: []inspect.OrderEvidence{{OrderNo: text}},
				Answers: []inspect.Answer{{Say: text, ProxyID: text, NewOperation: text, Bookings: []ledger.Booking{{Debit: text, Credit: text}}}}},
			Command: inspect.CommandStatus{CommandID: text, State: text, Labels: labels, WaitsFor: text, Operations: []inspect.OperationStatus{o, o}},
			Choices: []choice{{ProxyID: text, OrderNo: text, Charges: true, Expected: fact.Known(1)}}, Given: []bookedAnswer{{OperationResolved: fact.OperationResolved{By: text, Reason: text, ProxyID: text, Lines: []fact.AnsweredLine{{ProxyID: text}, {}}}}}, Typed: answerForm{text, text, text, text, text, text, text, text}, What: text,
			Happens: text, Facts: []factRow{{chain.Row{Type: text, Hash: text}, text, text}}, Steps: []step{{HistoryEntry: inspect.HistoryEntry{Type: text, Code: text, TraceID: text, Text: text}}},
			Booked: []tables.Posting{{Kind: text, Account: text, ProxyID: text}}, Way: []proxyHistory{{RenewalLine: tables.RenewalLine{ProxyID: text, State: fact.LineState(text)}, Before: text, After: text}},
		},
		"reviews":  reviewsView{Groups: []reviewGroup{{Code: text, Reason: text, Rows: []tables.Review{{OperationID: text, ProxyID: text, Code: text, Reason: text}}}}, Currency: text},
		"answered": answeredView{Rows: []answered{{What: text, Why: text, Command: text}}},
		"money": moneyView{
			booksView: booksView{Balance: tables.Balance{Currency: text, Head: chain.Head{Hash: text}}}, Month: text, Days: Made[[]tables.BookTotal]{At: noon, Err: text, Value: []tables.BookTotal{{SubjectTotal: tables.SubjectTotal{Subject: text}}}},
			entriesView: entriesView{Kind: text, Kinds: []string{text}, Totals: []tables.KindTotal{{Debit: text, Credit: text}}, Transactions: transactions([]tables.Posting{{Kind: text, Account: text, Operation: text, ProxyID: text, Hand: tables.Hand{By: text, Reason: text}}})},
			Checks: []askedProof{{"verify", text, true, Made[proof]{At: noon, Err: text, Value: proof{Broken: text, Reconciled: &reconcile.Reconciliation{
				Findings: []reconcile.Finding{{Kind: text, OperationID: text, OrderNo: text, ProxyID: text, Explanation: text}}, Notes: []string{text},
			}}}}},
		},
		"statement": statementView{Month: text, Earlier: text, Later: text, Made: Made[*report.Statement]{At: noon, Value: &report.Statement{Currency: text, HeadNote: text, Labels: []tables.SubjectTotal{{Subject: text}}, Corrections: &report.Corrections{Count: 1, ChargedCents: 5}, Outstanding: []report.Outstanding{{OperationID: text, OrderNo: text, State: fact.State(text)}}, Days: []tables.SubjectTotal{{Subject: text}}}}},
		"log":       decisionsView{Rows: []report.Decision{{Fact: text, About: text, By: text, User: text, Reason: text, Outcome: text}}},
		"changed":   changedView{Does: text, About: text, Why: text, Warning: text, Back: "/"},
		"dead":      deadView{Rows: []Letter{{Subject: text, Reason: text}}, Next: text},
		"letter":    letterView{Letter: Letter{Subject: text, Reason: text, Text: text}},
		"runners":   runnersView{Rows: []Runner{{Name: text, Version: text, Accounts: []RunnerAccount{{Account: text, Role: text}}}}},
		"revealed":  revealedView{ProxyID: text, Shown: []Credential{NewCredential(text, text)}},
		"schedules": schedulesView{Rows: []schedules.Status{status}}, "schedule": scheduleView{Status: status, Rules: []plans.Rule{{Name: text, Text: text}}, Approval: &approval{Rows: []plans.Included{{ProxyID: text}}}, Next: []nextSlot{{Here: text}}, Runs: []*schedules.Run{{SlotResult: tables.SlotResult{Outcome: text, Due: new(int64), Reason: text}, Slots: []tables.Slot{{State: text, Plan: text}}}}, Currency: text, Planned: true, Skipped: &skippedView{Run: &schedules.LastRun{Result: tables.SlotResult{Skipped: 1, OverLimit: 1, Reason: text}}, Rows: []schedules.SkippedProxy{{Proxy: p, Barred: text, State: text}}, All: 1}, Change: &planChange{Added: []string{text}, Gone: []string{text}},
			Plan: Made[plans.Plan]{At: noon, Err: text, Value: plans.Plan{Schedule: text, Hash: text, Currency: text, LeftOutCounts: map[string]int{text: 1}, LeftOut: []plans.LeftOut{{ProxyID: text, Reason: text}}, Included: []plans.Included{{ProxyID: text, Reason: text, PriceFrom: text}}}}},
		"proxies":  &proxiesView{Query: text, Country: text, Label: text, State: text, Schedules: []string{text}, Wrong: text, Within: text, Rows: []proxyRow{{PricedProxy: tables.PricedProxy{Proxy: p}, State: text, Schedule: text, Price: plans.Price{From: text}}}, Next: text, From: text, Until: text, ByExpiry: true, Coverage: Made[*plans.Coverage]{Err: text}},
		"webhooks": []webhook.Status{{Name: text, URL: text, State: text, LastError: text}},
		"proxy":    proxyView{Proxy: p, Listed: true, Order: text, Currency: text, Why: schedules.RenewalOutlook{Text: text, OperationID: text, Schedule: text, LastRun: text}, Renewals: []tables.ProxyRenewal{{OperationID: text, CommandID: text, State: fact.LineState(text), Reason: text}}},
		"calendar": calendarView{Before: calendarLink{text, text}, After: calendarLink{text, text}, Name: text, Currency: text, Weeks: [][7]calendarDay{{{Day: text, Full: text, From: text, Until: text, calendarCount: calendarCount{Expiring: 1, Uncovered: 1, Cost: fact.Sum{Cents: 1}}}}}},
	}
}

func TestEveryPageIsTriedWithHostileText(t *testing.T) {
	for _, name := range pageNames {
		if _, ok := hostileData("x")[name]; !ok {
			t.Errorf("%s is not", name)
		}
	}
}
