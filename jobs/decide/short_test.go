package decide

import (
	"strings"
	"testing"

	"perennial/ledger/fact"
	"perennial/upstream"
)

// An order that the provider reports as complete settles with the delivered proxies. The fact
// records the missing ones. They are a finding unless they were refunded.
func TestTrap62AShortDeliveryIsAFinding(t *testing.T) {
	counts := func(expected, delivered int64, listed int) func(*upstream.Order) {
		return func(o *upstream.Order) {
			o.Delivery.ExpectedCount, o.Delivery.DeliveredCount = expected, delivered
			o.Proxies = make([]upstream.Proxy, listed)
			for i := range o.Proxies {
				o.Proxies[i].ProxyID = "px_" + string(rune('a'+i))
			}
		}
	}
	for name, test := range map[string]struct {
		ordered             int64
		change              []func(*upstream.Order)
		expected, delivered int64 // as the operation shows them
		short, found        bool
	}{
		"whole":                           {3, []func(*upstream.Order){counts(3, 3, 3)}, 3, 3, false, false},
		"more than ordered":               {3, []func(*upstream.Order){counts(3, 4, 4)}, 3, 4, false, false},
		"one of three delivered":          {3, []func(*upstream.Order){counts(3, 1, 1)}, 3, 1, true, true},
		"one of three listed":             {3, []func(*upstream.Order){counts(3, 3, 1)}, 3, 1, true, true},
		"fewer expected than ordered":     {3, []func(*upstream.Order){counts(1, 1, 1)}, 3, 1, true, true},
		"nothing delivered":               {3, []func(*upstream.Order){counts(3, 0, 0)}, 3, 0, true, true},
		"the rest refunded":               {3, []func(*upstream.Order){counts(3, 1, 1), refund(600, &noon)}, 3, 1, true, false},
		"a part of the rest refunded":     {3, []func(*upstream.Order){counts(3, 1, 1), refund(300, &noon)}, 3, 1, true, true},
		"one entry unreadable":            {3, []func(*upstream.Order){counts(3, 3, 2), func(o *upstream.Order) { o.Unusable = []upstream.Unusable{{}} }}, 3, 3, false, false},
		"a long id":                       {3, []func(*upstream.Order){counts(3, 3, 3), func(o *upstream.Order) { o.Proxies[0].ProxyID = strings.Repeat("x", 257) }}, 3, 3, false, true},
		"an earlier order, not known yet": {0, []func(*upstream.Order){counts(2, 2, 2)}, 2, 2, false, false},
	} {
		op := open()
		op.Ordered = test.ordered
		d := read(op, detail(append([]func(*upstream.Order){finished}, test.change...)...))
		f, ok := d.Facts[0].(fact.OrderDelivered)
		if !ok {
			t.Errorf("%s: %s", name, said(d))
			continue
		}
		expected, delivered := f.Counts()
		if (f.Short != nil) != test.short || expected != test.expected || delivered != test.delivered {
			t.Errorf("%s: %d of %d, %+v", name, delivered, expected, f.Short)
		}
		var text string
		for _, x := range d.Facts[1:] {
			if x, ok := x.(fact.LedgerDiscrepancy); ok && x.Finding == FindingShort {
				text = x.Explanation
			}
		}
		if (text != "") != test.found || test.found && !strings.Contains(text, "charged 9.00") && !strings.Contains(text, "1 of the order's proxies are in no event and no line") {
			t.Errorf("%s: the finding says %q", name, text)
		}
	}
}

// An order with more proxies than were ordered may be another order.
func TestMoreThanWasOrderedIsAFinding(t *testing.T) {
	for name, test := range map[string]struct {
		ordered, expected, listed int64
		found                     bool
	}{
		"as ordered":               {2, 2, 2, false},
		"more expected":            {1, 2, 1, true},
		"more listed":              {1, 1, 2, true},
		"an earlier order's count": {0, 2, 2, false},
	} {
		op := open()
		op.Ordered = test.ordered
		d := read(op, detail(finished, func(o *upstream.Order) {
			o.Delivery.ExpectedCount, o.Delivery.DeliveredCount, o.Proxies = test.expected, test.listed, nil
			for i := range test.listed {
				o.Proxies = append(o.Proxies, upstream.Proxy{ProxyID: "px_" + string(rune('a'+i))})
			}
		}))
		found := strings.Contains(said(d), "ledger.discrepancy")
		if _, ok := d.Facts[0].(fact.OrderDelivered); !ok || found != test.found {
			t.Errorf("%s: %s", name, said(d))
		}
	}
}
