package web

import (
	"bufio"
	"bytes"
	"errors"
	"html"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"perennial/jobs/inspect"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/report"
	"perennial/ledger/tables"
)

// Each page loads nothing from another server, and shows texts of publishers and the provider as
// text.
func TestEveryPageIsWhole(t *testing.T) {
	h := newRig(t)
	h.signIn(h.client, Person{Name: "ada", Role: Operator})
	for _, path := range append(paths, "/a/main/operation?id="+`%3Cscript%3Ealert(%22x%22)%3C%2Fscript%3E`, "/a/main/operations?q=none", "/a/main/operation?id=none", "/a/main/proxy?id=none") {
		code, body, _ := h.get(path)
		if strings.Contains(path, "=none") != (code == http.StatusNotFound || strings.Contains(body, "Nothing of this account has the id")) {
			t.Errorf("%s: %d", path, code)
		}
		if !strings.Contains(body, "</html>") || strings.Contains(body, markup) || strings.Contains(body, "<b>now") {
			t.Errorf("%s is not whole, or has markup that was text:\n%s", path, body)
		}
		if m := regexp.MustCompile(`(?i)(src|href|action)="(https?:)?//`).FindString(body); m != "" || strings.Contains(body, "style=\"") || strings.Contains(body, "onclick") {
			t.Errorf("%s asks another server, or has inline code: %s", path, m)
		}
	}
}

// The page shows the amounts of the balance.
func TestTheMoneyIsTheBooks(t *testing.T) {
	h := newRig(t)
	h.signIn(h.client, Person{Name: "ada", Role: Viewer})
	check(t, h.main.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(fact.LedgerRecorded{Movement: "external", AmountCents: 1234, By: "ada", Reason: "by hand"})
	}))
	b, err := h.main.Money.Balance(t.Context(), "main")
	check(t, err)
	_, page, _ := h.get("/a/main/money")
	for _, cents := range []int64{b.FundingCents, b.ExternalCents, b.WalletCents, b.ChargedCents} {
		if !strings.Contains(page, fact.Amount(cents, "USD")) {
			t.Errorf("no %s", fact.Amount(cents, "USD"))
		}
	}
	page = h.shows("/a/main/money", "What each day cost")
	row := ""
	for _, cents := range []int64{b.ChargedCents, b.RefundedCents, 1234, b.ChargedCents - b.RefundedCents + 1234} {
		row += `<td class="n">` + fact.Amount(cents, "USD") + `</td>`
	}
	page = regexp.MustCompile(` data-(value|th)="[a-z0-9-]+"`).ReplaceAllString(page, "")
	if !strings.Contains(page, row+"</tr>") || !strings.Contains(page, ">Recorded</th>") {
		t.Errorf("the day does not add up: no %s", row)
	}
	if _, page, _ = h.get("/"); !strings.Contains(page, fact.Amount(b.WalletCents, "USD")) {
		t.Error("the first page has another wallet")
	}
	if _, page, _ = h.get("/a/main/log"); !strings.Contains(page, "by hand") {
		t.Error("the record is not among what people decided")
	}
}

// The entries of a transaction are folded. A month's export equals the export of the command line.
func TestATransactionIsOneRow(t *testing.T) {
	h := newRig(t)
	h.settles("two", fact.Line{ProxyID: "px_9", State: fact.LineFailed, ChargedCents: 411, RefundedCents: 111}, noon)
	check(t, h.main.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(fact.LedgerRecorded{Movement: "top-up", AmountCents: 1234, By: "ada", Reason: "by hand"})
	}))
	h.signIn(h.client, Person{Name: "ada", Role: Viewer})
	page := h.settled("/a/main/money")
	wants(t, page, "charge, refund -3.00 USD 4,997.00 USD two/0001 px_9 4 entries, row", "renewals 4.11 USD px_9", "funding 12.34 USD 5,009.34 USD", "ada: by hand", "Export 2026-11:")
	_, refunds, _ := h.get("/a/main/money?kind=refund")
	wants(t, refunds, "refund 1.11 USD 4,997.00 USD two/0001")
	if n := strings.Count(page, "<details>"); n != 3 { // including the opening balance
		t.Errorf("%d transactions:\n%s", n, page)
	}
	var csv, statement bytes.Buffer
	month := report.Period{From: noon.AddDate(0, 0, -20).Truncate(24 * time.Hour), To: noon.AddDate(0, 0, 10).Truncate(24 * time.Hour)}
	check(t, h.main.Report().ExportCSV(t.Context(), &csv, month))
	s, err := h.main.Report().Statement(t.Context(), "main", month)
	check(t, errors.Join(err, s.WriteCSV(&statement)))
	for as, want := range map[string]string{"csv": csv.String(), "statement.csv": statement.String()} {
		code, body, header := h.get("/a/main/export?month=2026-11&as=" + as)
		if code != http.StatusOK || body != want || header.Get("Content-Disposition") != `attachment; filename="main-2026-11.`+as+`"` {
			t.Errorf("%s: %d %q\n%s\n%s", as, code, header, body, want)
		}
	}
	for _, as := range []string{"jsonl", "beancount"} {
		if code, body, _ := h.get("/a/main/export?as=" + as); code != http.StatusOK || !strings.Contains(body, "px_9") {
			t.Errorf("%s: %d %s", as, code, body)
		}
	}
	for _, none := range []string{"as=exe", "as=csv&month=2099-01"} {
		if code, _, _ := h.get("/a/main/export?" + none); code != http.StatusNotFound {
			t.Errorf("%s: %d", none, code)
		}
	}
}

// The page shows each webhook's position and why it fails. An operator can test and replay it.
func TestWebhooksAreLookedAfter(t *testing.T) {
	h := newRig(t)
	h.signIn(h.client, Person{Name: "bob", Role: Viewer})
	if _, page, _ := h.get("/a/main/webhooks"); strings.Contains(page, "change/") {
		t.Error("a viewer has a form")
	}
	h.signIn(h.client, Person{Name: "ada", Role: Operator})
	_, page, _ := h.get("/a/main/webhooks")
	wants(t, page, "crm retrying https://crm.example 40 2 now", "&lt;script&gt;")
	fields := map[string]string{"form": formOf(t, page), "id": "crm", "back": "/a/main/webhooks"}
	_, page = h.post(h.client, "/a/main/change/webhook-test", h.server.URL, fields)
	wants(t, page, "Done: a test event was sent (crm). 200 OK after 12 ms Equivalent: perennial webhooks test crm --account main")
	fields["reason"] = "the customer lost them"
	for from, want := range map[string]string{"42": "a replay only goes back", "yesterday": "say from where on", "": "say from where on", "0": "say from where on", "41": "--from-seq 41 --by ada --reason"} {
		fields["from"] = from
		_, page = h.post(h.client, "/a/main/change/webhook-replay", h.server.URL, fields)
		wants(t, page, want)
	}
	if all := h.main.requests(); len(all) != 2 || all[1].question["seq"] != uint64(41) || all[1].question["by"] != "ada" {
		t.Errorf("asked %v", all)
	}
	h.main.nats = "NATS is away"
	if code, page, _ := h.get("/a/main/webhooks"); code != http.StatusServiceUnavailable || !strings.Contains(page, "NATS is away") {
		t.Errorf("%d %s", code, page)
	}
}

func TestWhatIsSoughtIsFound(t *testing.T) {
	h := newRig(t)
	h.signIn(h.client, Person{Name: "ada", Role: Viewer})
	for q, want := range map[string]string{"r1": "/a/main/operation?id=r1%2F0001", "r1%2F0001": "/a/main/operation?id=r1%2F0001", "px_1": "/a/main/proxy?id=px_1"} {
		code, _, header := h.get("/a/main/operations?q=" + q)
		if code != http.StatusSeeOther || header.Get("Location") != want {
			t.Errorf("%s: %d %s", q, code, header.Get("Location"))
		}
	}
	for filter, want := range map[string]bool{"state=review": true, "state=completed": false, "kind=order": false, "kind=renewal": true, "label=team%3Dnone": false} {
		if _, page, _ := h.get("/a/main/operations?" + filter); strings.Contains(page, "r1/0001") != want {
			t.Errorf("%s shows it: %t", filter, !want)
		}
	}
}

// The verb gets the person's name and reason, and the page shows the equivalent command.
func TestAChangeAsksItsVerb(t *testing.T) {
	h := newRig(t)
	h.signIn(h.client, Person{Name: "ada", Role: Operator})
	_, page, _ := h.get("/")
	form := formOf(t, page)
	for what, x := range map[string]struct {
		fields  map[string]string
		verb    string
		asks    map[string]any
		command string
	}{
		"release":         {map[string]string{"id": "c 1"}, "release", map[string]any{"id": "c 1"}, "perennial release 'c 1'"},
		"cancel":          {map[string]string{"id": " c1 "}, "cancel", map[string]any{"id": " c1 "}, "perennial cancel ' c1 '"},
		"retry":           {map[string]string{"id": "c1"}, "retry", map[string]any{"id": "c1"}, "perennial retry c1"},
		"approve":         {map[string]string{"id": "9f"}, "approve", map[string]any{"plan": "9f"}, "perennial schedules approve 9f"},
		"decline":         {map[string]string{"id": "9f"}, "decline", map[string]any{"plan": "9f"}, "perennial schedules decline 9f"},
		"sweep":           {map[string]string{"id": "keep"}, "sweep", map[string]any{"schedule": "keep"}, "perennial schedules run keep"},
		"schedule-pause":  {map[string]string{"id": "keep", "hours": "8"}, "schedule-pause", map[string]any{"schedule": "keep", "until": noon.Add(8 * time.Hour).Format(time.RFC3339)}, "perennial schedules pause keep --until 8h0m0s"},
		"schedule-resume": {map[string]string{"id": "keep"}, "schedule-resume", map[string]any{"schedule": "keep"}, "perennial schedules resume keep"},
		"pause":           {nil, "pause", nil, "perennial accounts pause"},
		"resume":          {nil, "resume", nil, "perennial accounts resume"},
		"resolve": {
			map[string]string{"id": "r1/0001", "answer": "charged", "amount": "3.5", "line": "px_1"}, "resolve",
			map[string]any{"id": "r1/0001", "charged": true, "charged_cents": 350.0, "line": "px_1"}, "perennial reviews resolve r1/0001 --charged 3.50 --line px_1",
		},
		"correct":        {map[string]string{"id": "9", "kind": "refund", "amount": "3"}, "record", map[string]any{"corrects_seq": 9.0, "kind": "refund", "cents": 300.0}, "perennial ledger record --corrects 9 --kind refund --cents 300"},
		"retire":         {map[string]string{"id": "px_1"}, "retire", nil, "perennial proxies retire px_1"},
		"dead-requeue":   {map[string]string{"id": "7"}, "dead-requeue", map[string]any{"seq": 7.0}, "perennial dead-letters requeue 7"},
		"dead-correct":   {map[string]string{"id": "7", "content": `{"id":"x"}`}, "dead-requeue", map[string]any{"seq": 7.0, "content": `{"id":"x"}`}, "perennial dead-letters requeue 7 --file corrected.json"},
		"dead-drop":      {map[string]string{"id": "8"}, "dead-drop", map[string]any{"seq": 8.0}, "perennial dead-letters drop 8"},
		"webhook-replay": {map[string]string{"id": "crm", "from": "2026-11-20"}, "webhook-replay", map[string]any{"id": "crm", "since": "2026-11-20"}, "perennial webhooks replay crm --from-time 2026-11-20"},
		"reinstate":      {map[string]string{"id": "px_1"}, "retire", map[string]any{"undo": true}, "perennial proxies retire px_1 --undo"},
	} {
		h.main.answer[x.verb] = map[string]any{"changed": 1}
		fields := map[string]string{"form": form, "reason": "it's so"}
		maps.Copy(fields, x.fields)
		code, body := h.post(h.client, "/a/main/change/"+what, h.server.URL, fields)
		all := h.main.requests()
		last := all[len(all)-1]
		if code != http.StatusOK || last.verb != x.verb || last.question["by"] != "ada" || last.question["reason"] != "it's so" {
			t.Errorf("%s: %d %+v", what, code, last)
		}
		for field, want := range x.asks {
			if last.question[field] != want {
				t.Errorf("%s asks for %s %v and not %v", what, field, last.question[field], want)
			}
		}
		if want := x.command + ` --by ada --reason 'it'\''s so' --account main`; !strings.Contains(html.UnescapeString(body), want) {
			t.Errorf("%s does not show %s:\n%s", what, want, body)
		}
	}
	if len(changes) != 19 {
		t.Errorf("%d kinds of change", len(changes))
	}
}

func TestAChangeThatCannotBeIsSaid(t *testing.T) {
	h := newRig(t)
	h.signIn(h.client, Person{Name: "ada", Role: Operator})
	_, page, _ := h.get("/")
	form := formOf(t, page)
	for _, fields := range []map[string]string{
		{"id": "r1/0001"}, {"id": "r1/0001", "answer": "charged"}, {"id": "r1/0001", "answer": "charged", "amount": "12.345"}, {"id": "r1/0001", "answer": "charged", "amount": "-1"},
		{"id": "r1/0001", "answer": "charged", "amount": "1e3"}, {"id": "r1/0001", "answer": "not_charged", "reason": ""},
	} {
		all := map[string]string{"form": form, "reason": "so"}
		maps.Copy(all, fields)
		if code, body := h.post(h.client, "/a/main/change/resolve", "", all); code != http.StatusUnprocessableEntity || !strings.Contains(body, `role="alert"`) || fields["amount"] != "" && !strings.Contains(body, `value="`+fields["amount"]+`"`) {
			t.Errorf("%v: %d, or what was typed is lost\n%s", fields, code, body)
		}
	}
	if slices.ContainsFunc(h.main.requests(), func(x asked) bool { return x.verb == "resolve" }) {
		t.Error("the runner was asked")
	}
	if code, body := h.post(h.client, "/a/main/change/cancel", "", map[string]string{"form": form, "id": "c1", "reason": "so"}); code != http.StatusUnprocessableEntity || !strings.Contains(body, "the runner says no to cancel") {
		t.Errorf("a runner that refuses: %d %s", code, body)
	}
	if code, _ := h.post(h.client, "/a/main/change/nothing", "", map[string]string{"form": form, "reason": "so"}); code != http.StatusNotFound {
		t.Errorf("a change that there is not: %d", code)
	}
}

// A change without an answer may have been made.
func TestAChangeThatWasNotAnsweredIsNotCalledNotDone(t *testing.T) {
	h := newRig(t)
	h.signIn(h.client, Person{Name: "ada", Role: Operator})
	_, page, _ := h.get("/a/main/reviews")
	h.main.silent = true
	fields := map[string]string{"form": formOf(t, page), "reason": "x", "id": "r1/0001", "answer": "not_charged", "review": reviewKey(tables.Review{OperationID: "r1/0001"})}
	for path, want := range map[string]int{"/a/main/change/resolve": http.StatusGatewayTimeout, "/a/main/change/sweep": http.StatusGatewayTimeout, "/a/main/resolve": http.StatusOK} {
		code, body := h.post(h.client, path, h.server.URL, fields)
		if code != want || strings.Contains(body, "Not done") || strings.Contains(body, "no: ") || !strings.Contains(strings.ToLower(body), "not known") || !strings.Contains(body, `<a href="/a/main/log">Activity`) {
			t.Errorf("%s: %d\n%s", path, code, body)
		}
	}
}

// A page that is sent twice would run the schedule twice, each time with a whole budget.
func TestAPageRunsAScheduleOnce(t *testing.T) {
	h := newRig(t)
	h.signIn(h.client, Person{Name: "ada", Role: Operator})
	_, page, _ := h.get("/a/main/reviews")
	fields := map[string]string{"form": formOf(t, page), "reason": "due", "id": "keep", "after": neverRan}
	h.main.answer["sweep"] = map[string]any{"due": 1, "state": "finished", "included": []any{map[string]any{}}}
	if code, body := h.post(h.client, "/a/main/change/sweep", h.server.URL, fields); code != http.StatusOK || !strings.Contains(body, "1 due, 1 renewal published") || !strings.Contains(body, `data-edition=""`) {
		t.Errorf("%d\n%s", code, body)
	}
	if q := h.main.lastOf(t, "sweep"); q["after"] != "0001-01-01T00:00:00Z" {
		t.Errorf("of a schedule that never ran: %v", q)
	}
	fields["after"] = noon.Format(time.RFC3339Nano)
	h.post(h.client, "/a/main/change/sweep", h.server.URL, fields)
	if q := h.main.lastOf(t, "sweep"); q["after"] != noon.Format(time.RFC3339) {
		t.Errorf("of a schedule that ran: %v", q)
	}
	fields["after"] = "yesterday"
	if code, body := h.post(h.client, "/a/main/change/sweep", h.server.URL, fields); code != http.StatusUnprocessableEntity || !strings.Contains(body, "load the page again") {
		t.Errorf("%d\n%s", code, body)
	}
}

// fillHidden copies the hidden fields of a page's form.
func fillHidden(fields map[string]string, page string) {
	for _, m := range regexp.MustCompile(`type="hidden" name="([a-z]+)" value="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		fields[m[1]] = html.UnescapeString(m[2])
	}
}

// The runner demands the confirmation. The page shows what would be booked, what was expected and
// the wallet afterwards, with a button to confirm.
func TestAnUnlikelyAnswerIsASecondStep(t *testing.T) {
	h := newRig(t)
	h.signIn(h.client, Person{Name: "ada", Role: Operator})
	_, page, _ := h.get("/a/main/attention")
	h.main.answer["evidence"], h.main.unlikely = evidenceOfR1(), "5999.99 USD would be booked as charged for r1/0001, and 8.40 USD is expected. An amount"
	fields := map[string]string{"form": formOf(t, page), "reason": "the invoice", "id": "r1/0001", "answer": "charged", "amount": "5999.99", "back": "/a/main/operation?id=r1%2F0001"}
	code, page := h.post(h.client, "/a/main/change/resolve", h.server.URL, fields)
	wants(t, page, "and 8.40 USD is expected. Check it before you confirm.", "Would be booked 5,999.99 USD Expected 8.40 USD Ledger balance now 5,000.00 USD Ledger balance after -999.99 USD", "Reason: the invoice", "Book 5,999.99 USD")
	if code != http.StatusUnprocessableEntity {
		t.Errorf("%d", code)
	}
	several := maps.Clone(fields)
	several["review"] = reviewKey(tables.Review{OperationID: "r1/0001"})
	if _, body := h.post(h.client, "/a/main/resolve", h.server.URL, several); !strings.Contains(body, "8.40 USD is expected. If it is right, answer again and mark that it is") || strings.Contains(body, "An amount") {
		t.Errorf("among several:\n%s", body)
	}
	h.main.answer["resolve"] = map[string]any{"changed": 1}
	fillHidden(fields, page)
	before := len(h.main.requests())
	edited := maps.Clone(fields)
	edited["edit"] = "yes"
	if code, again := h.post(h.client, "/a/main/change/resolve", h.server.URL, edited); code != http.StatusOK || !strings.Contains(again, `value="5999.99"`) || !strings.Contains(again, `value="the invoice"`) || strings.Contains(again, `role="alert"`) {
		t.Errorf("%d: the answer cannot be changed:\n%s", code, again)
	}
	for _, x := range h.main.requests()[before:] {
		if x.verb == "resolve" {
			t.Errorf("an edited answer is sent: %v", x)
		}
	}
	if _, page = h.post(h.client, "/a/main/change/resolve", h.server.URL, fields); !strings.Contains(page, "Done:") {
		t.Errorf("the second step does not confirm:\n%s", page)
	}
	if q := h.main.lastOf(t, "resolve"); q["confirm_cents"] != 599999.0 || q["charged_cents"] != 599999.0 || q["reason"] != "the invoice" {
		t.Errorf("%v", q)
	}
}

func TestAnUnlikelyCorrectionIsASecondStep(t *testing.T) {
	h := newRig(t)
	h.signIn(h.client, Person{Name: "ada", Role: Operator})
	_, page, _ := h.get("/a/main/attention")
	h.main.unlikely = "42.00 USD would be booked as charged for px_1, 42.00 USD in all, and 4.20 USD was taken back. An amount"
	fields := map[string]string{"form": formOf(t, page), "reason": "the invoice", "id": "9", "kind": "charge", "amount": "42", "line": "px_1", "back": "/a/main/operation?id=r1%2F0001"}
	code, page := h.post(h.client, "/a/main/change/correct", h.server.URL, fields)
	wants(t, page, "and 4.20 USD was taken back. Check it before you confirm.", "Would be booked 42.00 USD Ledger balance now 5,000.00 USD Ledger balance after 4,958.00 USD", "Book 42.00 USD")
	if code != http.StatusUnprocessableEntity {
		t.Errorf("%d", code)
	}
	h.main.answer["record"] = map[string]any{"changed": 1}
	fillHidden(fields, page)
	if _, page = h.post(h.client, "/a/main/change/correct", h.server.URL, fields); !strings.Contains(page, "Done:") || !strings.Contains(page, "--confirm-amount 4200") {
		t.Errorf("the second step does not confirm:\n%s", page)
	}
	if q := h.main.lastOf(t, "record"); q["confirm_cents"] != 4200.0 || q["cents"] != 4200.0 || q["line"] != "px_1" {
		t.Errorf("%v", q)
	}
}

// evidenceOfR1 returns the runner's evidence about the rig's review.
func evidenceOfR1() inspect.Evidence {
	before := noon.Add(3 * time.Hour)
	now := before.AddDate(0, 0, 30)
	return inspect.Evidence{
		OperationStatus: inspect.OperationStatus{OperationID: "r1/0001", CommandID: "r1", Kind: fact.KindRenewal, State: fact.StateReview, Currency: "USD", Lines: []tables.RenewalLine{{ProxyID: "px_1", State: fact.LinePending}}},
		Expiries:        []inspect.ExpiryEvidence{{ProxyID: "px_1", State: "pending", Before: &before, Now: &now, Moved: new(true)}},
		Orders:          []inspect.OrderEvidence{{OrderNo: "NO-77", NetCents: fact.Known(840), CreatedAt: noon}},
		WalletBefore:    &tables.Reconciled{LedgerReconciled: fact.LedgerReconciled{ProviderCents: 13080}, At: noon},
		Verdict:         &inspect.Verdict{Outcome: inspect.VerdictCharged, Text: "Likely charged: its expiry moved by 30 days; expected 8.40 USD.", ExpectedCents: fact.Known(840), OrderNo: "NO-77"},
		Answers:         []inspect.Answer{{Say: "--charged 8.40 --order NO-77"}, {Say: "--not-charged --against-evidence"}, {Say: "--not-charged --against-evidence --send-again"}},
	}
}

// The evidence says that the provider charged, but not how much.
func TestTheWalletFillsInAnAmountThatNothingElseTells(t *testing.T) {
	h := newRig(t)
	e := evidenceOfR1()
	e.Verdict.ExpectedCents, e.WalletGap = fact.Cents{}, new(int64(640))
	h.main.answer["evidence"] = e
	h.signIn(h.client, Person{Name: "ada", Role: Operator})
	wants(t, h.settled("/a/main/operation?id=r1"), `value="charged">It charged 6.40 USD: order NO-77</button>`)
}

// The page of a review shows an unknown charge as unknown, and names the amount that the operator
// enters.
func TestAnUnknownAmountIsNotNothing(t *testing.T) {
	h := newRig(t)
	e := evidenceOfR1()
	e.Verdict.ExpectedCents, e.Answers[0].Say = fact.Cents{}, "--charged AMOUNT --confirm-amount AMOUNT"
	e.Orders[0].NetCents = fact.Cents{}
	h.main.answer["evidence"] = e
	h.signIn(h.client, Person{Name: "ada", Role: Operator})
	wants(t, h.settled("/a/main/operation?id=r1"), "Charged unknown", "NO-77 2026-11-21 12:00:00 UTC unknown", "It charged the amount that you enter nothing")
}

// The page shows the verdict, and buttons with the amount and the order. After the resolution it
// offers a correction.
func TestThePageOfAReviewShowsTheEvidence(t *testing.T) {
	h := newRig(t)
	h.main.answer["evidence"] = evidenceOfR1()
	h.signIn(h.client, Person{Name: "ada", Role: Operator})
	page := h.settled("/a/main/operation?id=r1")
	wants(t, page, "Likely charged: its expiry moved by 30 days; expected 8.40 USD.", "by 30 days", "NO-77 2026-11-21 12:00:00 UTC 8.40 USD", "Provider's wallet before 130.80 USD", "Provider's wallet after not known",
		`name="amount" value="8.40"><input type="hidden" name="order" value="NO-77"`, `value="charged">It charged 8.40 USD: order NO-77</button>`, "It charged nothing: send again")
	check(t, h.main.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(fact.OperationResolved{Ref: fact.Ref{CommandID: "r1", OperationID: "r1/0001"}, By: "ada", Reason: "the invoice", Outcome: "charged", ChargedCents: 840, DurationDays: 30})
	}))
	page = h.settled("/a/main/operation?id=r1")
	wants(t, page, "Resolved: charged 8.40 USD", "By ada: the invoice", "Correct: less or nothing was charged", `/a/main/change/correct`, `name="kind" value="refund"`)
	if strings.Contains(page, "Resolve the review") {
		t.Error("a review that is resolved can be resolved again")
	}
}

// The page offers the reverse correction with the amount filled in. For a wrong amount it says what
// to do.
func TestACorrectionCanBeTakenBack(t *testing.T) {
	h := newRig(t)
	ref := fact.Ref{CommandID: "r1", OperationID: "r1/0001"}
	var answer int64
	check(t, h.main.Write(t.Context(), func(tx *ledger.Tx) error {
		if err := tx.Append(fact.OperationResolved{Ref: ref, By: "ada", Reason: "the invoice", Outcome: "charged", ChargedCents: 900, DurationDays: 30}); err != nil {
			return err
		}
		answer = tx.LastSeq()
		return tx.Append(fact.LedgerRecorded{Ref: ref, ProxyID: "px_1", Movement: "refund", AmountCents: 900, By: "ada", Reason: "wrong", Corrects: answer})
	}))
	h.signIn(h.client, Person{Name: "ada", Role: Operator})
	page := h.settled("/a/main/operation?id=r1")
	wants(t, page, "<summary>Correct: it was charged after all</summary>", `name="kind" value="charge"`, `value="9.00"`, "9.00 USD was taken back", "With its corrections: 0.00 USD charged.")
	if strings.Contains(page, "Correct: less or nothing was charged") {
		t.Error("nothing is left to take back")
	}
	fields := map[string]string{"form": formOf(t, page), "id": strconv.FormatInt(answer, 10), "operation": "r1/0001", "kind": "charge", "reason": "it was charged"}
	for amount, way := range map[string]string{"": "enter the amount that the provider charged", "-9.00": "To take a charge back, use “Correct: less or nothing was charged”"} {
		fields["amount"] = amount
		code, page := h.post(h.client, "/a/main/change/correct", h.server.URL, fields)
		if code != http.StatusUnprocessableEntity || len(h.main.requests()) > 0 {
			t.Errorf("%q: %d, %v", amount, code, h.main.requests())
		}
		wants(t, page, way, `value="`+amount+`"`, `value="it was charged"`, "<details open data-open><summary>Correct: it was charged after all</summary>")
	}
	fields["edit"], fields["amount"] = "yes", "7.00" // from the page that asks for the confirmation
	if code, page := h.post(h.client, "/a/main/change/correct", h.server.URL, fields); code != http.StatusOK || !strings.Contains(page, `value="7.00"`) || strings.Contains(page, `role="alert"`) {
		t.Errorf("%d: the correction cannot be changed:\n%s", code, page)
	}
	delete(fields, "edit")
	fields["kind"], fields["amount"] = "refund", "1.00" // another operator took it back first
	_, page = h.post(h.client, "/a/main/change/correct", h.server.URL, fields)
	wants(t, page, `role="alert">the runner says no to record</p>`)
	h.main.answer["record"] = map[string]any{"changed": 1}
	fields["kind"], fields["amount"] = "charge", "9.00"
	_, page = h.post(h.client, "/a/main/change/correct", h.server.URL, fields)
	wants(t, page, "Done: the answer was corrected (r1/0001).")
	if q := h.main.lastOf(t, "record"); q["kind"] != "charge" || q["cents"] != 900.0 || q["corrects_seq"] != float64(answer) {
		t.Errorf("%v", q)
	}
	check(t, h.main.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(fact.LedgerRecorded{Ref: ref, ProxyID: "px_1", Movement: "charge", AmountCents: 900, By: "ada", Reason: "right", Corrects: answer})
	}))
	wants(t, h.settled("/a/main/operation?id=r1"), "<summary>Correct: less or nothing was charged</summary>", "all of it, 9.00 USD", "<summary>Correct: more was charged</summary>")
}

// The runner demands the confirmation, and the pages pass on that the person is sure.
func TestAPersonWhoIsSureConfirmsTheAnswer(t *testing.T) {
	h := newRig(t)
	check(t, h.main.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(
			fact.CommandAccepted{Ref: fact.Ref{CommandID: "o1"}, Kind: fact.KindOrder, Content: []byte(`{}`), EstimateCents: 411, Operations: []fact.Planned{{OperationID: "o1/1", Chunk: "1", Generation: 1, Key: "k"}}},
			fact.OperationSending{Ref: fact.Ref{CommandID: "o1", OperationID: "o1/1"}, Attempt: 1, Key: "k", Body: "{}", SentAt: noon},
			fact.OperationReview{Ref: fact.Ref{CommandID: "o1", OperationID: "o1/1"}, Attempt: 1, Ambiguous: true, Reason: "lost"})
	}))
	h.main.answer["resolve"] = map[string]any{"changed": 1}
	h.signIn(h.client, Person{Name: "ada", Role: Operator})
	_, page, _ := h.get("/a/main/reviews")
	fields := map[string]string{"form": formOf(t, page), "reason": "x", "id": "o1/1", "amount": "1000.00", "review": reviewKey(tables.Review{OperationID: "o1/1"})}
	for _, sure := range []string{"", "yes"} {
		fields["sure"] = sure
		for path, done := range map[string]string{"/a/main/change/resolve": "Done:", "/a/main/resolve": "1 of 1 answered"} {
			for answer, confirms := range map[string]string{"charged": "confirm_cents", "not_charged": "against_evidence"} {
				fields["answer"] = answer
				if _, body := h.post(h.client, path, h.server.URL, fields); !strings.Contains(body, done) {
					t.Errorf("%s, %s:\n%s", path, answer, body)
				}
				asks := h.main.requests()
				if _, said := asks[len(asks)-1].question[confirms]; said != (sure == "yes") {
					t.Errorf("%s, %s, sure %q: asked %v", path, answer, sure, asks[len(asks)-1])
				}
			}
		}
	}
	fields = map[string]string{"form": formOf(t, page), "reason": "x", "answer": "at_stake", "review": reviewKey(tables.Review{OperationID: "r1/0001"})}
	if _, body := h.post(h.client, "/a/main/resolve", h.server.URL, fields); !strings.Contains(body, "0 of 1 answered") {
		t.Errorf("an answer of what is at stake books nothing:\n%s", body)
	}
}

func TestAStandbyWithoutNATSDoesNotSayWhoHasTheAccount(t *testing.T) {
	h := newRig(t)
	h.main.role = "standby"
	h.signIn(h.client, Person{Name: "ada", Role: Viewer})
	if _, page, _ := h.get("/a/main/money"); !strings.Contains(page, "another one has the account") {
		t.Error("a standby does not say that it follows")
	}
	h.main.nats = "NATS does not answer since a minute"
	if _, page, _ := h.get("/a/main/money"); strings.Contains(page, "another one has the account.") || !strings.Contains(page, "NATS does not answer since a minute") {
		t.Errorf("without NATS:\n%s", page)
	}
}

func TestAnOpenPageHearsOfAChange(t *testing.T) {
	h := newRig(t)
	h.signIn(h.client, Person{Name: "ada", Role: Viewer})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.server.URL+"/changes", nil)
	check(t, err)
	response, err := h.client.Do(request)
	check(t, err)
	defer func() { _ = response.Body.Close() }()
	lines := bufio.NewScanner(response.Body)
	heard := func(want string) {
		t.Helper()
		for lines.Scan() {
			if lines.Text() == "event: "+want {
				return
			}
		}
		t.Fatalf("%s was not heard: %v", want, lines.Err())
	}
	heard("hello")
	for range 3 { // a change right after another one is heard too
		check(t, h.main.Write(t.Context(), func(tx *ledger.Tx) error {
			return tx.Append(fact.LedgerRecorded{Movement: "top-up", AmountCents: 1, By: "ada", Reason: "x"})
		}))
		heard("changed")
	}
}

// rendered renders a page without a server.
func rendered(t *testing.T, page string, data any) string {
	t.Helper()
	var out bytes.Buffer
	check(t, pages()[page].ExecuteTemplate(&out, "layout", view{Account: "main", Now: noon, CanAct: true, Data: data}))
	return out.String()
}

// The pages cannot place orders or add schedules, so that they show the command.
func TestAnEmptyListSaysHowItIsFilled(t *testing.T) {
	order := "perennial order off_us_dallas=5 --days 30 --max 15.00 --account main"
	wants(t, rendered(t, "operations", &operationsView{}), "No operations yet.", order)
	wants(t, rendered(t, "proxies", &proxiesView{}), "No proxies.", order)
	for page, data := range map[string]any{"schedules": schedulesView{}, "overview": accountCard{Name: "main"}} {
		wants(t, rendered(t, page, data), "No schedule is configured: nothing is renewed automatically.", "<code>schedules</code>", "docs/schedules.md")
	}
}

func TestARefusedCommandSaysWhatToDo(t *testing.T) {
	h := newRig(t)
	h.signIn(h.client, Person{Name: "bob", Role: Viewer})
	check(t, h.main.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(fact.CommandRejected{Ref: fact.Ref{CommandID: "bad 1"}, Code: fact.RejectedInvalid, Reason: "field itemz is not known", ContentHash: "00"})
	}))
	wants(t, h.settled("/a/main/operation?id=bad%201"), "field itemz is not known", "Publish the corrected command under the same id, which is still free; or leave it: nothing was carried out, and it leaves this list after 24 h.",
		"perennial order OFFER=QUANTITY --days DAYS --max AMOUNT --id &#39;bad 1&#39; --account main")
}

func TestAReviewOffersNoAnswerWhileTheProviderIsAsked(t *testing.T) {
	v := &operationView{Evidence: evidenceOfR1(), Choices: []choice{{Charges: true, Expected: fact.Known(840)}}, asking: true}
	page := rendered(t, "operation", v)
	wants(t, page, "The provider is being asked.")
	for _, early := range []string{"Likely charged", "Undecided", `name="amount"`, "It charged"} {
		if strings.Contains(page, early) {
			t.Errorf("%q while the provider is asked", early)
		}
	}
	v.asking = false
	wants(t, rendered(t, "operation", v), "Likely charged", "It charged 8.40 USD")
}

// The provider said that it charged, and the money is missing from its wallet.
func TestAnAnswerAgainstTheWalletIsConfirmed(t *testing.T) {
	h := newRig(t)
	e := evidenceOfR1()
	e.Lines = []tables.RenewalLine{{ProxyID: "px_1", State: fact.LineUnresolved, ChargedCents: 300}}
	e.WalletNow = &inspect.WalletRead{ProviderCents: 13080, LedgerCents: 13080, At: noon}
	h.main.answer["evidence"] = e
	h.main.answer["resolve"] = map[string]any{"changed": 1}
	h.signIn(h.client, Person{Name: "ada", Role: Operator})
	_, page, _ := h.get("/a/main/attention")
	fields := map[string]string{"form": formOf(t, page), "id": "r1/0001", "answer": "not_charged", "reason": "no sign of it"}
	resolves := func() []asked {
		return slices.DeleteFunc(h.main.requests(), func(x asked) bool { return x.verb != "resolve" })
	}
	if _, page = h.post(h.client, "/a/main/change/resolve", h.server.URL, fields); !strings.Contains(page, "the provider said that it charged 3.00 USD") || len(resolves()) > 0 {
		t.Fatalf("it is not confirmed:\n%s", page)
	}
	fillHidden(fields, page)
	h.post(h.client, "/a/main/change/resolve", h.server.URL, fields)
	if all := resolves(); len(all) != 1 || all[0].question["against_evidence"] != true {
		t.Errorf("%v", all)
	}
}
