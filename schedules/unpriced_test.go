package schedules

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"perennial/ledger"
	"perennial/ledger/fact"
)

// kinds are proxies of as many kinds.
func kinds(n int) (all []ledger.Proxy) {
	for i := range n {
		p := px(fmt.Sprintf("px_%d", i), time.Duration(1+i)*time.Hour)
		p.Region = fmt.Sprintf("region %d", i)
		all = append(all, p)
	}
	return all
}

// Each may cost more than all that is left.
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
		w.UnderWay = []ledger.Proxy{w.Proxies[0]}
		want(t, name+": while another is on its way", w.plan(t).ids(), []string{"px_3"})
	}
	want(t, "without a limit", len(newWorld(t, keepalive(), kinds(4)...).plan(t).Included), 4)
}

// What an offer asks is over what is left: nothing is renewed to learn the price.
func TestTrap52AListPriceOverALimitIsNotPaid(t *testing.T) {
	list := func(cents int64) func(context.Context, ledger.Proxy) fact.Cents {
		return func(context.Context, ledger.Proxy) fact.Cents { return fact.Known(cents) }
	}
	for name, limit := range map[string]func(*Schedule){
		ReasonBudget: func(s *Schedule) { s.BudgetCents = 300 }, ReasonDay: func(s *Schedule) { s.DailyBudgetCents = 300 }, ReasonMonth: func(s *Schedule) { s.MonthlyBudgetCents = 300 },
	} {
		s := keepalive()
		limit(&s)
		w := newWorld(t, s, kinds(4)...)
		w.listPrice = list(301)
		p := w.plan(t)
		want(t, name+": renewed", len(p.Included), 0)
		want(t, name+": left out", p.LeftOutCounts, map[string]int{name: 4})
		want(t, name+": shortfall", []any{p.Shortfalls[0].Cents, p.Shortfalls[0].Listed, p.Shortfalls[0].Unpriced}, []any{fact.Known(4*301 - 300), 4, 0})
		want(t, name+": nothing follows by itself", p.Left == nil, true)
		w.listPrice = list(300)
		p = w.plan(t)
		want(t, name+": one at the limit", p.ids(), []string{"px_0"})
		want(t, name+": its list price", []any{p.EstimateCents, p.ListPriceCents, p.Listed}, []any{fact.Cents{}, 300, 1})
	}
}

func TestTrap52AListPriceOverTheApprovalLimitIsHeld(t *testing.T) {
	s := keepalive()
	s.ApproveOverCents = 299
	h := newRig(t, map[string]string{"px_1": "24h", "px_2": "25h"}, s)
	h.config.Offers = h.offers(t) // off_us_dallas asks 300
	h.restart(t)
	plan, err := h.RunNow(t.Context(), "keepalive", "ann", "due")
	check(t, err)
	want(t, "state", plan.State, StateHeld)
	want(t, "published", len(h.stream.ids()), 0)
	held := h.held(t, 0)
	if last := held[len(held)-1]; !strings.Contains(last.Reason, "its estimate of 3.00 (3.00 of it list price, not yet paid once) is over") {
		t.Error(last.Reason)
	}
	check(t, h.Approve(t.Context(), plan.Hash, "ada", "checked"))
	want(t, "once it is approved", h.stream.ids(), []string{"px_1"})
}

// A limit of the account counts the list price; the wallet does not, as the provider refuses
// what it does not hold.
func TestAListPriceCountsAgainstTheDayAndNotTheWallet(t *testing.T) {
	wallet := int64(300)
	w := newWorld(t, keepalive(), kinds(1)...)
	w.listPrice = func(context.Context, ledger.Proxy) fact.Cents { return fact.Known(301) }
	w.WalletCents = &wallet
	want(t, "the wallet", w.plan(t).ids(), []string{"px_0"})
	w.LimitCents = 300
	want(t, "the account's day", w.plan(t).LeftOutCounts, map[string]int{ReasonLimit: 1})
}

// The renewal that learns a price takes its list price from what is left for the others.
func TestAListPriceTakesFromTheBudgetOfTheOthers(t *testing.T) {
	s := keepalive()
	s.BudgetCents = 600
	all := kinds(3)
	w := newWorld(t, s, all...)
	paid(t, w.ledger, "px_1", 200)
	paid(t, w.ledger, "px_2", 200)
	w.listPrice = func(context.Context, ledger.Proxy) fact.Cents { return fact.Known(300) }
	want(t, "renewed", w.plan(t).ids(), []string{"px_0", "px_1"})
}

// What waits for a person does not hold its kind: the price that its line names is used, or
// another one tells it. Too many without a price and an outcome bound what a budget risks.
func TestACanaryInReviewDoesNotHoldItsKind(t *testing.T) {
	for _, c := range []struct {
		name    string
		cents   int64
		reviews int
		budget  int64
		want    []string
	}{
		{"its line names the price", 300, 1, 0, []string{"px_2", "px_3", "px_4", "px_5"}},
		{"its price is not known", 0, 1, 0, []string{"px_2"}},
		{"three in review", 0, 3, 0, []string{"px_4"}},
		{"its price is not known, under a budget", 0, 2, 900, []string{"px_3"}},
		{"three in review, under a budget", 0, 3, 900, nil},
	} {
		s := keepalive()
		s.BudgetCents = c.budget
		h := newRig(t, map[string]string{"px_1": "24h", "px_2": "25h", "px_3": "26h", "px_4": "27h", "px_5": "28h"}, s)
		for i := range c.reviews {
			unresolved(t, h.Ledger, fmt.Sprintf("px_%d", i+1), c.cents)
		}
		p, err := h.PlanNow(t.Context(), "keepalive")
		check(t, err)
		want(t, c.name, p.ids(), c.want)
	}
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
	if !strings.Contains(x.said("USD"), "at least 1.00 USD (2 of unknown price) short") {
		t.Error(x.said("USD"))
	}
}

func TestTrap52AnApprovalNeedsRoomForWhatHasNoPrice(t *testing.T) {
	s := keepalive()
	s.ApproveOverCents, s.DailyBudgetCents = 300, 600
	h := newRig(t, map[string]string{"px_1": "24h", "px_2": "25h", "px_de_1": "26h"}, s)
	h.paid(t, "px_1", 300)
	plan, err := h.RunNow(t.Context(), "keepalive", "ann", "due")
	check(t, err)
	want(t, "held", plan.State, StateHeld)
	want(t, "included", plan.ids(), []string{"px_1", "px_2"}) // no room is left for the canary
	h.watch.add(time.Second)
	h.config.Schedules[0].DailyBudgetCents = 700
	h.restart(t)
	plan, err = h.RunNow(t.Context(), "keepalive", "ann", "due")
	check(t, err)
	want(t, "with room", plan.Unpriced, 1)
	held := h.held(t, 0)
	if last := held[len(held)-1]; last.UnknownPrice != 1 || !strings.Contains(last.Reason, "at least 6.00 (1 of unknown price)") {
		t.Errorf("%+v", last)
	}
	h.config.Schedules[0].DailyBudgetCents = 600
	h.restart(t)
	wantErr(t, h.Approve(t.Context(), plan.Hash, "ada", "checked"), ErrOverBudget)
}

func TestAForecastHonoursKeep(t *testing.T) {
	forecast := func(atLeast, days int) Forecast {
		t.Helper()
		s := keepalive()
		s.Keep = Keep{AtLeast: atLeast, Per: []string{"country_code"}}
		h := newRig(t, map[string]string{"px_1": "24h", "px_2": "96h", "px_3": "100h", "px_4": "500h", "px_old": "360h"}, s)
		h.paid(t, "px_1", 300)
		check(t, h.Ledger.Write(t.Context(), func(tx *ledger.Tx) error {
			return tx.Append(fact.ProxyRetired{ProxyID: "px_old", By: "ada", Reason: "slow"})
		}))
		check(t, h.lister.WaitPass(t.Context()))
		f, err := h.Forecast(t.Context(), "keepalive", days)
		check(t, err)
		return f
	}
	want(t, "one stays by itself for ten days", forecast(1, 10).ChargeCents, fact.Known(0))
	want(t, "and is renewed in the end", forecast(1, 30).ChargeCents, fact.Known(300))
	want(t, "two: the last but one, and both once more", forecast(2, 30).ChargeCents, fact.Known(600))
	want(t, "four: all, and what comes round again", forecast(4, 30).ChargeCents, fact.Known(5*300))
	want(t, "ten: as many as there are", forecast(10, 30).ChargeCents, fact.Known(5*300))
}

// TestTwoProtocolsOfOneKindNeedACanaryEach: what one costs says nothing of the
// other.
func TestTwoProtocolsOfOneKindNeedACanaryEach(t *testing.T) {
	http := px("px_http", 2*time.Hour)
	http.Protocol = "http"
	w := newWorld(t, keepalive(), px("px_1", time.Hour), http, px("px_2", 3*time.Hour))
	p := w.plan(t)
	want(t, "canaries", p.ids(), []string{"px_1", "px_http"})
	w.UnderWay = []ledger.Proxy{w.Proxies[0]}
	want(t, "while one of them is on its way", w.plan(t).ids(), []string{"px_http"})
}
