package decide

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"perennial/ledger/fact"
	"perennial/upstream"
)

// item returns a line of the provider's result; charged is net of refunds.
func item(id, status string, charged, refunded int64) upstream.RenewalLine {
	return upstream.RenewalLine{ProxyID: id, Status: status, DurationDays: 30, AmountCents: charged + refunded, ChargedCents: charged, RefundedCents: refunded}
}

// result returns a renewal whose lists and sums agree with its lines.
func result(status string, items ...upstream.RenewalLine) *upstream.Renewal {
	r := &upstream.Renewal{Status: status, LineItems: items}
	for _, l := range items {
		r.TotalCents, r.ChargedCents, r.RefundedCents = r.TotalCents+l.AmountCents, r.ChargedCents+l.ChargedCents, r.RefundedCents+l.RefundedCents
		switch l.Status {
		case upstream.LineSucceeded:
			r.Successful = append(r.Successful, l.ProxyID)
		case upstream.LineFailed:
			r.Failed = append(r.Failed, l.ProxyID)
		case upstream.LineUnresolved:
			r.Unresolved = append(r.Unresolved, l.ProxyID)
		}
	}
	return r
}

func renewed(r *upstream.Renewal) upstream.Reply {
	reply := success(200)
	reply.Renewal = r
	return reply
}

func allFailed(r *upstream.Renewal) upstream.Reply {
	reply := answer(upstream.CodeOperationFailed, 422)
	reply.Renewal = r
	return reply
}

func good() *upstream.Renewal {
	return result("partial", item("a", "succeeded", 300, 0), item("b", "failed", 0, 310), item("c", "unresolved", 320, 0))
}

func TestTrap15ChargedIsAfterRefundsAndIsBookedGross(t *testing.T) {
	f, ok := replied(renewalOf("a", "b", "c"), renewed(good())).Facts[0].(fact.RenewalSettled)
	want := fact.Lines{ChargedCents: 930, RefundedCents: 310, Items: []fact.Line{
		{ProxyID: "a", State: "succeeded", ChargedCents: 300}, {ProxyID: "b", State: "failed", ChargedCents: 310, RefundedCents: 310},
		{ProxyID: "c", State: "unresolved", ChargedCents: 320},
	}}
	if !ok || f.Status != "partial" || !reflect.DeepEqual(f.Lines, want) || f.Code != "" || f.TraceID != "tr_1" {
		t.Fatalf("%+v", f)
	}
}

func TestTrap16AllFailedIsABookingAndNotOnlyAnError(t *testing.T) {
	r := result("failed", item("a", "failed", 0, 300), item("b", "failed", 0, 300))
	f, ok := replied(renewalOf("a", "b"), allFailed(r)).Facts[0].(fact.RenewalSettled)
	if !ok || f.Status != "failed" || f.ChargedCents != 600 || f.RefundedCents != 600 || f.Code != "operation_failed" {
		t.Fatalf("%+v", f)
	}
	// Rule 2 of the API allows these fields to be absent.
	r.Missing, r.TotalCents = []string{"total_cents", "successful_proxy_ids", "unresolved_proxy_ids"}, 0
	if got := said(replied(renewalOf("a", "b"), allFailed(r))); got != "renewal.failed" {
		t.Fatalf("without the optional fields: %s", got)
	}
	r.Missing = append(r.Missing, "line_items")
	if got := said(replied(renewalOf("a", "b"), allFailed(r))); got != person {
		t.Fatalf("without lines: %s", got)
	}
	kept := result("failed", item("a", "failed", 300, 0))
	if got := said(replied(renewalOf("a"), allFailed(kept))); got != person {
		t.Fatalf("failed, but the money was kept: %s", got)
	}
	// An earlier attempt may have executed, and this reply replays its result.
	if got := said(replied(ambiguous(renewalOf("a", "b")), allFailed(result("failed", item("a", "failed", 0, 1), item("b", "failed", 0, 1))))); got != "renewal.failed" {
		t.Fatalf("a replay: %s", got)
	}
}

func TestTrap17HTTP200ProvesNothingAboutAnIP(t *testing.T) {
	for name, spoil := range map[string]func(*upstream.Renewal){
		"an id is in no list":           func(r *upstream.Renewal) { r.Successful = nil },
		"an id is in two lists":         func(r *upstream.Renewal) { r.Failed = append(r.Failed, "a") },
		"an id appears twice in a list": func(r *upstream.Renewal) { r.Successful = append(r.Successful, "a") },
		"an id that was not asked for":  func(r *upstream.Renewal) { r.Successful = append(r.Successful, "z") },
		"a line too few":                func(r *upstream.Renewal) { r.LineItems = r.LineItems[:2] },
		"a line too many":               func(r *upstream.Renewal) { r.LineItems = append(r.LineItems, item("z", "succeeded", 0, 0)) },
		"a line twice":                  func(r *upstream.Renewal) { r.LineItems[1] = r.LineItems[0] },
		"a line says otherwise":         func(r *upstream.Renewal) { r.LineItems[0].Status = "unresolved" },
		"a line in an unknown state":    func(r *upstream.Renewal) { r.LineItems[0].Status = "parked" },
		"the charges do not add up":     func(r *upstream.Renewal) { r.ChargedCents++ },
		"the refunds do not add up":     func(r *upstream.Renewal) { r.RefundedCents-- },
		"the total does not add up":     func(r *upstream.Renewal) { r.TotalCents++ },
		"a negative amount":             func(r *upstream.Renewal) { r.LineItems[0].ChargedCents, r.ChargedCents = -1, r.ChargedCents-301 },
		"an amount beyond all bounds":   func(r *upstream.Renewal) { r.LineItems[0].AmountCents = 1 << 60 },
		"a success was refunded":        func(r *upstream.Renewal) { r.LineItems[0].RefundedCents, r.RefundedCents = 5, 315 },
		"an unresolved one refunded":    func(r *upstream.Renewal) { r.LineItems[2].RefundedCents, r.RefundedCents = 5, 315 },
		"a failure was kept":            func(r *upstream.Renewal) { r.LineItems[1].ChargedCents, r.ChargedCents = 5, r.ChargedCents+5 },
		"completed with failures":       func(r *upstream.Renewal) { r.Status = "completed" },
		"failed with successes": func(r *upstream.Renewal) {
			r.Status = "manual_review"
			r.Unresolved, r.Successful = nil, append(r.Successful, "c")
		},
		"a status that is not given": func(r *upstream.Renewal) { r.Status = "almost" },
		"no status":                  func(r *upstream.Renewal) { r.Status = "" },
		"completed, and no proxy renewed": func(r *upstream.Renewal) {
			*r = *result("partial", item("a", "failed", 0, 0), item("b", "failed", 0, 0), item("c", "failed", 0, 0))
		},
	} {
		r := good()
		spoil(r)
		d := replied(renewalOf("a", "b", "c"), renewed(r))
		if f, ok := d.Facts[0].(fact.OperationReview); !ok || !f.Ambiguous || f.Settlement != nil || len(d.Facts) != 1 {
			t.Errorf("%s: %s", name, said(d))
		}
	}
}

func TestAResultThatLacksAFieldIsAskedForAgain(t *testing.T) {
	for _, field := range []string{"status", "total_cents", "charged_cents", "refunded_cents", "successful_proxy_ids", "failed_proxy_ids", "unresolved_proxy_ids", "line_items"} {
		r := good()
		r.Missing = []string{field}
		switch field { // a list that is missing names nothing
		case "successful_proxy_ids":
			r.Successful = nil
		case "failed_proxy_ids":
			r.Failed = nil
		case "unresolved_proxy_ids":
			r.Unresolved = nil
		}
		if got := said(replied(renewalOf("a", "b", "c"), renewed(r))); got != again1 {
			t.Errorf("no %s: %s", field, got)
		}
	}
	for _, field := range []string{"proxy_id", "status", "charged_cents", "refunded_cents"} {
		r := good()
		r.LineItems[1].Missing = []string{field}
		if field == "proxy_id" {
			r.LineItems[1].ProxyID = ""
		}
		d := replied(renewalOf("a", "b", "c"), renewed(r))
		if f, ok := d.Facts[0].(fact.RenewalSettled); !ok || !slices.ContainsFunc(f.Items, func(l fact.Line) bool { return l.ProxyID == "b" && l.State == fact.LineUnresolved }) {
			t.Errorf("a line without %s: %s", field, said(d)) // one line is lost, and not the reply (trap 65)
		}
	}
	r := good()
	r.LineItems[0].Missing = []string{"host", "amount", "duration_days"}
	if got := said(replied(renewalOf("a", "b", "c"), renewed(r))); got != "renewal.partial" {
		t.Errorf("without what is not needed: %s", got)
	}
	unread := success(200)
	unread.Malformed = "total_cents is not an integer"
	if got := said(replied(renewalOf("a"), unread)); got != again1 {
		t.Errorf("malformed: %s", got)
	}
	if got := said(replied(renewalOf("a"), renewed(result("failed", item("a", "failed", 0, 300))))); got != again1 {
		t.Errorf("a success that failed: %s", got)
	}
}

func TestTrap08Trap18UnresolvedLinesStandInSuspenseForAPerson(t *testing.T) {
	manual := good()
	manual.Status = "manual_review"
	for name, test := range map[string]struct {
		op Operation
		r  *upstream.Renewal
	}{
		"manual_review": {renewalOf("a", "b", "c"), manual},
		"nothing known": {renewalOf("c"), result("partial", item("c", "unresolved", 320, 0))},
	} {
		d := replied(test.op, renewed(test.r))
		f, ok := d.Facts[0].(fact.OperationReview)
		if !ok || f.Settlement == nil || len(f.Settlement.Items) != len(test.op.ProxyIDs) || !strings.Contains(f.Reason, "do not send it again") {
			t.Errorf("%s: %s", name, said(d))
		}
	}
}

// amountless removes the amounts of a renewal's last line, as before the provider has verified
// it.
func amountless(r *upstream.Renewal) {
	l := &r.LineItems[len(r.LineItems)-1]
	l.Missing = []string{"amount_cents", "charged_cents", "refunded_cents"}
	l.AmountCents, l.ChargedCents, l.RefundedCents = 0, 0, 0
}

func TestTrap08AnAmountNotKnownYetIsNotAskedForAgain(t *testing.T) {
	for name, spoil := range map[string]func(*upstream.Renewal){
		"the sums hold it":      func(*upstream.Renewal) {},
		"the sums leave it out": func(r *upstream.Renewal) { r.TotalCents, r.ChargedCents = 610, 300 },
		"the sums are null": func(r *upstream.Renewal) {
			r.Missing = []string{"total_cents", "charged_cents", "refunded_cents"}
			r.TotalCents, r.ChargedCents, r.RefundedCents = 0, 0, 0
		},
		"only charged_cents is null": func(r *upstream.Renewal) {
			r.LineItems[2].Missing, r.LineItems[2].AmountCents = []string{"charged_cents", "refunded_cents"}, 320
		},
		"it has no line item": func(r *upstream.Renewal) { r.LineItems = r.LineItems[:2] },
	} {
		r := good()
		r.Status = "manual_review"
		amountless(r)
		spoil(r)
		d := replied(renewalOf("a", "b", "c"), renewed(r))
		f, ok := d.Facts[0].(fact.OperationReview)
		want := []fact.Line{{ProxyID: "a", State: "succeeded", ChargedCents: 300}, {ProxyID: "b", State: "failed", ChargedCents: 310, RefundedCents: 310}, {ProxyID: "c", State: "unresolved"}}
		if !ok || f.Settlement == nil || !reflect.DeepEqual(f.Settlement.Items, want) {
			t.Errorf("%s: %s %+v", name, said(d), d.Facts)
		}
	}
	part := good()
	amountless(part)
	if f, ok := replied(renewalOf("a", "b", "c"), renewed(part)).Facts[0].(fact.RenewalSettled); !ok || f.Status != "partial" || f.ChargedCents != 610 {
		t.Errorf("partial: %+v", f)
	}
}

func TestTrap08ManualReviewIsNeverSentAgain(t *testing.T) {
	for name, spoil := range map[string]func(*upstream.Renewal){
		"no list of the unresolved":    func(r *upstream.Renewal) { r.Missing, r.Unresolved = []string{"unresolved_proxy_ids"}, nil },
		"no charged_cents":             func(r *upstream.Renewal) { r.Missing = []string{"charged_cents"} },
		"no line items":                func(r *upstream.Renewal) { r.Missing, r.LineItems = []string{"line_items"}, nil },
		"the known lines are too dear": func(r *upstream.Renewal) { amountless(r); r.ChargedCents = 299 },
		"a refund too few":             func(r *upstream.Renewal) { amountless(r); r.RefundedCents = 309 },
	} {
		r := good()
		r.Status = "manual_review"
		spoil(r)
		d := replied(renewalOf("a", "b", "c"), renewed(r))
		if f, ok := d.Facts[0].(fact.OperationReview); !ok || !f.Ambiguous || f.Settlement != nil {
			t.Errorf("%s: %s", name, said(d))
		}
	}
	none := &upstream.Renewal{Status: "manual_review", Unresolved: []string{"a", "b"}, Missing: []string{"line_items", "total_cents", "charged_cents", "refunded_cents"}}
	if f, ok := replied(renewalOf("a", "b"), renewed(none)).Facts[0].(fact.OperationReview); !ok || f.Settlement == nil || len(f.Settlement.Items) != 2 {
		t.Errorf("nothing but the list: %+v", f)
	}
}

func TestACompletedRenewalIsCompleted(t *testing.T) {
	r := result("completed", item("b", "succeeded", 300, 0), item("a", "succeeded", 0, 0))
	if got := said(replied(renewalOf("a", "b"), renewed(r))); got != "renewal.completed" {
		t.Fatal(got)
	}
}

func TestTrap57AnEmptyListMayBeLeftOut(t *testing.T) {
	for name, test := range map[string]struct {
		r    *upstream.Renewal
		left string
		want string
	}{
		"completed without the unresolved": {result("completed", item("a", "succeeded", 300, 0)), "unresolved_proxy_ids", "renewal.completed"},
		"completed without the failed":     {result("completed", item("a", "succeeded", 300, 0)), "failed_proxy_ids", "renewal.completed"},
		"failed without the successful":    {result("partial", item("a", "succeeded", 300, 0), item("b", "failed", 0, 300)), "unresolved_proxy_ids", "renewal.partial"},
		"the list that names it":           {&upstream.Renewal{Status: "completed", TotalCents: 300, ChargedCents: 300, LineItems: []upstream.RenewalLine{item("a", "succeeded", 300, 0)}}, "successful_proxy_ids", again1},
	} {
		test.r.Missing = append(test.r.Missing, test.left)
		ids := []string{"a"}
		if len(test.r.LineItems) > 1 {
			ids = append(ids, "b")
		}
		if got := said(replied(renewalOf(ids...), renewed(test.r))); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

func TestTrap25AnAmountsTextMustEqualItsCents(t *testing.T) {
	r := result("completed", item("a", "succeeded", 300, 0))
	r.LineItems[0].Amount = "3.00"
	if got := said(replied(renewalOf("a"), renewed(r))); got != "renewal.completed" {
		t.Error(got)
	}
	r.LineItems[0].Amount = "300"
	if got := said(replied(renewalOf("a"), renewed(r))); got != "renewal.completed, ledger.discrepancy" {
		t.Error(got)
	}
}
