package plans

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"perennial/ledger/fact"
	"perennial/ledger/tables"
)

// kinds returns n proxies of n kinds.
func kinds(n int) (all []tables.Proxy) {
	for i := range n {
		p := px(fmt.Sprintf("px_%d", i), time.Duration(1+i)*time.Hour)
		p.Region = fmt.Sprintf("region %d", i)
		all = append(all, p)
	}
	return all
}

// Each proxy of unknown price may cost more than the rest of the budget.
func TestTrap52ABudgetLearnsOneUnknownPriceAtATime(t *testing.T) {
	for name, limit := range map[string]func(*Schedule){
		"a sweep": func(s *Schedule) { s.BudgetCents = 300 }, "a day": func(s *Schedule) { s.DailyBudgetCents = 300 },
		"a month": func(s *Schedule) { s.MonthlyBudgetCents = 300 }, "an approval": func(s *Schedule) { s.ApproveOverCents = 300 },
	} {
		s := keepalive()
		limit(&s)
		w := newWorld(t, s, kinds(4)...)
		p := w.plan(t)
		want(t, name, p.ids(), []string{"px_0"})
		want(t, name+": left out", p.LeftOutCounts, map[string]int{ReasonOneByOne: 3})
		want(t, name+": left", p.Left.Proxies, 3)
		paid(t, w.ledger, "px_3", 300)
		w.UnderWay = []tables.Proxy{w.Proxies[0]}
		want(t, name+": while another is on its way", w.plan(t).ids(), []string{"px_3"})
	}
	want(t, "without a limit", len(newWorld(t, keepalive(), kinds(4)...).plan(t).Included), 4)
}

// The offer's price exceeds the rest of the limit, so nothing is renewed to learn the price.
func TestTrap52AListPriceOverALimitIsNotPaid(t *testing.T) {
	list := func(cents int64) func(context.Context, tables.Proxy) fact.Cents {
		return func(context.Context, tables.Proxy) fact.Cents { return fact.Known(cents) }
	}
	for name, limit := range map[string]func(*Schedule){
		ReasonBudget: func(s *Schedule) { s.BudgetCents = 300 }, ReasonDay: func(s *Schedule) { s.DailyBudgetCents = 300 }, ReasonMonth: func(s *Schedule) { s.MonthlyBudgetCents = 300 },
	} {
		s := keepalive()
		limit(&s)
		w := newWorld(t, s, kinds(4)...)
		w.ListPrice = list(301)
		p := w.plan(t)
		want(t, name+": renewed", len(p.Included), 0)
		want(t, name+": left out", p.LeftOutCounts, map[string]int{name: 4})
		want(t, name+": shortfall", []any{p.Shortfalls[0].Cents, p.Shortfalls[0].Listed, p.Shortfalls[0].Unpriced}, []any{fact.Known(4*301 - 300), 4, 0})
		want(t, name+": nothing follows by itself", p.Left == nil, true)
		w.ListPrice = list(300)
		p = w.plan(t)
		want(t, name+": one at the limit", p.ids(), []string{"px_0"})
		want(t, name+": its list price", []any{p.EstimateCents, p.ListPriceCents, p.Listed}, []any{fact.Cents{}, 300, 1})
	}
}

// A proxy that waits for its price expires before a dearer kind's, and gets the money first.
func TestMoneyIsKeptForProxiesThatWaitForTheirPrice(t *testing.T) {
	s := keepalive()
	de, de2, us := px("px_de", time.Hour), px("px_de2", 2*time.Hour), px("px_us", 3*time.Hour)
	de.CountryCode, de2.CountryCode = "DE", "DE"
	for budget, x := range map[int64]struct{ included, left []string }{
		999:  {[]string{"px_de"}, []string{"px_de2", "px_us"}},
		1000: {[]string{"px_de", "px_us"}, []string{"px_de2"}},
		699:  {[]string{"px_de", "px_us"}, []string{"px_de2"}}, // the budget cannot pay for px_de2 anyway
	} {
		s.BudgetCents = budget
		w := newWorld(t, s, de, de2, us)
		w.ListPrice = func(context.Context, tables.Proxy) fact.Cents { return fact.Known(350) }
		renewal(t, w.ledger, 1, "px_us", "succeeded", 300, us.ExpiresAt.Add(-30*fact.Day))
		p := w.plan(t)
		want(t, fmt.Sprint(budget, ": included"), p.ids(), x.included)
		var left []string
		for _, one := range p.LeftOut {
			left = append(left, one.ProxyID)
		}
		want(t, fmt.Sprint(budget, ": left out"), left, x.left)
		if budget == 999 {
			want(t, "short by", p.Shortfalls[0].Cents, fact.Known(1))
			want(t, "the run continues", p.Left.Proxies, 1)
			w.UnpricedOpen = unpricedMost
			want(t, "included until a review shows the price", w.plan(t).ids(), []string{"px_us"})
		}
	}
}

// The account's limit counts the list price. The wallet does not, because the provider refuses
// what the wallet cannot pay.
func TestAListPriceCountsAgainstTheDayAndNotTheWallet(t *testing.T) {
	wallet := int64(300)
	w := newWorld(t, keepalive(), kinds(1)...)
	w.ListPrice = func(context.Context, tables.Proxy) fact.Cents { return fact.Known(301) }
	w.WalletCents = &wallet
	want(t, "the wallet", w.plan(t).ids(), []string{"px_0"})
	w.LimitCents = 300
	want(t, "the account's day", w.plan(t).LeftOutCounts, map[string]int{ReasonLimit: 1})
}

// The list price of the canary reduces the budget for the other proxies.
func TestAListPriceTakesFromTheBudgetOfTheOthers(t *testing.T) {
	s := keepalive()
	s.BudgetCents = 600
	all := kinds(3)
	w := newWorld(t, s, all...)
	paid(t, w.ledger, "px_1", 200)
	paid(t, w.ledger, "px_2", 200)
	w.ListPrice = func(context.Context, tables.Proxy) fact.Cents { return fact.Known(300) }
	want(t, "renewed", w.plan(t).ids(), []string{"px_0", "px_1"})
}

func TestTrap52AnUnknownPriceIsNotShownAsNone(t *testing.T) {
	w := newWorld(t, keepalive(), kinds(2)...)
	p := w.plan(t)
	want(t, "unpriced", p.Unpriced, 2)
	want(t, "estimate", p.EstimateCents, fact.Cents{})
	w.Schedule.DailyBudgetCents, w.SpentTodayCents = 300, 300
	p = w.plan(t)
	want(t, "shortfall", p.Shortfalls[0].Unpriced, 2)
	want(t, "shortfall", p.Shortfalls[0].Cents, fact.Cents{})
	x := Shortfall{Reason: ReasonDay, Proxies: 3, Cents: fact.Known(100), Unpriced: 2}
	if !strings.Contains(x.Text("USD"), "at least 1.00 USD (2 of unknown price) short") || !strings.Contains(x.Text("USD"), "a run of the next day plans them again") {
		t.Error(x.Text("USD"))
	}
}

// The price of one protocol says nothing about the other.
func TestTwoProtocolsOfOneKindNeedACanaryEach(t *testing.T) {
	http := px("px_http", 2*time.Hour)
	http.Protocol = "http"
	w := newWorld(t, keepalive(), px("px_1", time.Hour), http, px("px_2", 3*time.Hour))
	p := w.plan(t)
	want(t, "canaries", p.ids(), []string{"px_1", "px_http"})
	w.UnderWay = []tables.Proxy{w.Proxies[0]}
	want(t, "while one of them is on its way", w.plan(t).ids(), []string{"px_http"})
}
