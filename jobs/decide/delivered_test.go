package decide

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"perennial/ledger/fact"
	"perennial/upstream"
)

// Long texts in the provider's proxies must not make a delivery too large to record.
func TestADeliveryFitsIntoAFact(t *testing.T) {
	const mostOfAFact = 900 << 10 // ledger.MaxFactBytes
	op := Operation{Operation: fact.Operation{ID: "buy/1", CommandID: "buy", Kind: fact.KindOrder, State: fact.StateOpen, OrderNo: "ord_1"}, Binding: binding, OfferCode: "off_us_1"}
	expires := time.Date(2026, 12, 21, 12, 0, 0, 0, time.UTC)
	for region, whole := range map[string]bool{"Dallas": true, strings.Repeat("x", 100): true, strings.Repeat("\x01", 500): false, strings.Repeat("x", 10_000): false} {
		o := upstream.Order{OrderSummary: upstream.OrderSummary{OrderNo: "ord_1", TotalCents: new(int64), Currency: "USD"}, Delivery: upstream.Delivery{Complete: true, Available: true, Present: true}}
		*o.TotalCents = 600_001
		for i := range 2000 {
			id := "0af76519-16cd-43dd-8448-eb211c8" + string(rune('a'+i%26)) + strings.Repeat("0", 4)
			o.Proxies = append(o.Proxies, upstream.Proxy{ProxyID: id, CountryCode: "US", Region: region, LineName: "premium", IPType: "isp", Protocol: "socks5", ExpiresAt: &expires})
		}
		f, ok := Decide(op, OrderRead{Moment: Moment{Now: expires}, Order: o}).Facts[0].(fact.OrderDelivered)
		if !ok {
			t.Fatal("it is not delivered")
		}
		text, err := json.Marshal(f)
		if err != nil || len(text) > mostOfAFact || (len(f.Proxies) == 2000) != whole || len(f.ProxyIDs) != 2000 {
			t.Errorf("%.20q: %d bytes, %d proxies, %v", region, len(text), len(f.Proxies), err)
		}
		var sum int64
		for _, p := range f.Proxies {
			sum += *p.ChargedCents
		}
		if whole && sum != 600_001 {
			t.Errorf("the shares sum to %d", sum)
		}
	}
}
