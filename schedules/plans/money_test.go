package plans

import (
	"strings"
	"testing"
	"time"

	"perennial/ledger/fact"
)

func TestAPlanSaysWhereEachPriceComesFrom(t *testing.T) {
	german := px("px_de", 4*time.Hour)
	german.CountryCode = "DE"
	http := px("px_http", 5*time.Hour)
	http.Protocol = "http"
	w := newWorld(t, keepalive(), px("px_1", time.Hour), px("px_2", 2*time.Hour), german, http, px("px_late", -time.Hour))
	paid(t, w.ledger, "px_1", 300)
	from, why := map[string]string{}, map[string]string{}
	for _, one := range w.plan(t).Included {
		from[one.ProxyID], why[one.ProxyID] = one.PriceFrom, one.Reason
	}
	want(t, "prices", from, map[string]string{"px_1": PriceOwn, "px_2": PriceKind, "px_de": PriceNone, "px_http": PriceNone, "px_late": PriceKind})
	want(t, "why", why["px_1"], "due since 2026-11-18T13:00:00Z")
	want(t, "why", why["px_late"], "it has expired and is still listed")
}

func TestAnEmptyWalletDoesNotSayThatNothingIsMissing(t *testing.T) {
	w := newWorld(t, keepalive(), px("px_1", time.Hour))
	w.WalletCents = new(int64)
	for _, x := range w.plan(t).Shortfalls {
		if said := x.Text("USD"); strings.Contains(said, ": 0.00 USD is missing") || !strings.Contains(said, "an unknown amount") {
			t.Error(said)
		}
	}
	want(t, "shortfalls", len(w.plan(t).Shortfalls), 1)
}

func TestTrap54ARetiredProxyRenewedByHandDoesNotStay(t *testing.T) {
	s := keepalive()
	s.Keep = Keep{AtLeast: 1}
	w := newWorld(t, s, px("px_old", 2*time.Hour), px("px_1", 3*time.Hour))
	renewal(t, w.ledger, 1, "px_old", "claimed", 0, noon)
	w.Proxies[0].Retired = true
	paid(t, w.ledger, "px_1", 300)
	want(t, "included", w.plan(t).ids(), []string{"px_1"})
}

func TestNoMoreIsMissingThanAGroupLacks(t *testing.T) {
	s := keepalive()
	s.Keep, s.BudgetCents = Keep{AtLeast: 4}, 300
	w := newWorld(t, s, many(10)...)
	paid(t, w.ledger, "px_00000", 300)
	w.Staying = map[string]int{"": 1}
	p := w.plan(t)
	want(t, "included", p.ids(), []string{"px_00000"})
	want(t, "shortfalls", p.Shortfalls, []Shortfall{{Reason: ReasonBudget, Proxies: 2, LimitCents: 300, Cents: fact.Known(600), FirstLostAt: noon.Add(time.Hour + time.Second)}})
	want(t, "left out", p.LeftOutCounts, map[string]int{ReasonBudget: 2, ReasonEnough: 7})
}
