package decide

import (
	"reflect"
	"strings"
	"testing"

	"perennial/ledger/fact"
	"perennial/upstream"
)

// unreadable moves a line item to the unusable items, as the client does if it cannot read the
// item.
func unreadable(r *upstream.Renewal, at int, named bool) *upstream.Renewal {
	u := upstream.Unusable{Position: at + 1, Field: "amount_cents", Why: "amount_cents is not a 64-bit integer"}
	if named {
		u.ID = r.LineItems[at].ProxyID
	}
	r.Unusable = append(r.Unusable, u)
	r.LineItems = append(r.LineItems[:at:at], r.LineItems[at+1:]...)
	return r
}

func TestTrap65AnUnreadableLineIsUnresolved(t *testing.T) {
	completed := func() *upstream.Renewal {
		return result("completed", item("a", "succeeded", 300, 0), item("b", "succeeded", 320, 0))
	}
	for name, test := range map[string]struct {
		r    *upstream.Renewal
		want fact.Lines
	}{
		"a success, named": {unreadable(completed(), 1, true), fact.Lines{ChargedCents: 620, Items: []fact.Line{
			{ProxyID: "a", State: "succeeded", ChargedCents: 300}, {ProxyID: "b", State: "unresolved", ChargedCents: 320}}}},
		"a success, not named": {unreadable(completed(), 0, false), fact.Lines{ChargedCents: 620, Items: []fact.Line{
			{ProxyID: "b", State: "succeeded", ChargedCents: 320}, {ProxyID: "a", State: "unresolved", ChargedCents: 300}}}},
		"a failure": {unreadable(result("partial", item("a", "succeeded", 300, 0), item("b", "failed", 0, 310)), 1, true), fact.Lines{ChargedCents: 300, Items: []fact.Line{
			{ProxyID: "a", State: "succeeded", ChargedCents: 300}, {ProxyID: "b", State: "unresolved"}}}},
	} {
		d := replied(renewalOf("a", "b"), renewed(test.r))
		if f, ok := d.Facts[0].(fact.RenewalSettled); !ok || f.Status != "partial" || !reflect.DeepEqual(f.Lines, test.want) {
			t.Errorf("%s: %s %+v", name, said(d), d.Facts)
		}
	}
	failed := unreadable(result("failed", item("a", "failed", 0, 300), item("b", "failed", 0, 300)), 1, true)
	if f, ok := replied(renewalOf("a", "b"), allFailed(failed)).Facts[0].(fact.RenewalSettled); !ok || f.RefundedCents != 300 || f.Items[1].State != "unresolved" {
		t.Errorf("all failed: %+v", f)
	}
	several := unreadable(unreadable(result("partial", item("a", "succeeded", 300, 0), item("b", "succeeded", 310, 0), item("c", "failed", 0, 5)), 2, false), 1, true)
	if f, ok := replied(renewalOf("a", "b", "c"), renewed(several)).Facts[0].(fact.RenewalSettled); !ok || f.ChargedCents != 300 || f.Items[1].State != "unresolved" || f.Items[2].State != "unresolved" {
		t.Errorf("several: %+v", f)
	}
}

func TestTrap65ARenewalOfUnreadableLinesIsInReview(t *testing.T) {
	r := unreadable(result("completed", item("a", "succeeded", 300, 0)), 0, true)
	f, ok := replied(renewalOf("a"), renewed(r)).Facts[0].(fact.OperationReview)
	if !ok || f.Settlement == nil || f.Settlement.Items[0] != (fact.Line{ProxyID: "a", State: "unresolved", ChargedCents: 300}) || !strings.Contains(f.Reason, "amount_cents is not") {
		t.Errorf("%+v", f)
	}
}

func TestTrap65UnreadableLinesHideNoContradiction(t *testing.T) {
	for name, spoil := range map[string]func(*upstream.Renewal){
		"an id is in no list":        func(r *upstream.Renewal) { r.Successful = r.Successful[:1] },
		"an id is in two lists":      func(r *upstream.Renewal) { r.Failed = append(r.Failed, "b") },
		"it is of a proxy with one":  func(r *upstream.Renewal) { r.Unusable[0].ID = "a" },
		"it is of a foreign proxy":   func(r *upstream.Renewal) { r.Unusable[0].ID = "z" },
		"two for one proxy":          func(r *upstream.Renewal) { r.Unusable = append(r.Unusable, upstream.Unusable{Position: 3}) },
		"the known lines are dearer": func(r *upstream.Renewal) { r.ChargedCents = 299 },
	} {
		r := unreadable(result("completed", item("a", "succeeded", 300, 0), item("b", "succeeded", 320, 0)), 1, true)
		spoil(r)
		d := replied(renewalOf("a", "b"), renewed(r))
		if f, ok := d.Facts[0].(fact.OperationReview); !ok || f.Settlement != nil {
			t.Errorf("%s: %s", name, said(d))
		}
	}
}

func TestTrap65AnOrderSettlesWhateverItsProxiesLookLike(t *testing.T) {
	op, total := open(), int64(903)
	op.OfferCode = "off_1"
	o := upstream.Order{OrderSummary: upstream.OrderSummary{OrderNo: "ord_1", TotalCents: &total, Currency: "USD"}, Delivery: upstream.Delivery{Present: true, Complete: true, Available: true, ExpectedCount: 3, DeliveredCount: 3},
		Proxies: []upstream.Proxy{{ProxyID: "px_1"}}, Unusable: []upstream.Unusable{{ID: "px_2", Position: 2, Field: "expires_at"}, {Position: 3, Field: "proxy_id"}}}
	f, ok := Decide(op, OrderRead{Moment: Moment{Now: noon}, Order: o}).Facts[0].(fact.OrderDelivered)
	if !ok || f.ChargedCents != 903 || !reflect.DeepEqual(f.ProxyIDs, []string{"px_1", "px_2"}) || len(f.Proxies) != 2 || *f.Proxies[1].ChargedCents != 301 {
		t.Errorf("%+v", f)
	}
	o.Proxies, o.Unusable = nil, o.Unusable[1:]
	if f, ok := Decide(op, OrderRead{Moment: Moment{Now: noon}, Order: o}).Facts[0].(fact.OrderDelivered); !ok || f.ChargedCents != 903 || len(f.ProxyIDs) != 0 {
		t.Errorf("none can be read: %+v", f)
	}
}
