package schedules

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/schedules/plans"
)

func TestTrap52AListPriceOverTheApprovalLimitIsHeld(t *testing.T) {
	s := keepalive()
	s.ApproveOverCents = 299
	h := newRig(t, map[string]string{"px_1": "24h", "px_2": "25h"}, s)
	h.config.Offers = h.offers(t) // off_us_dallas costs 300
	h.restart(t)
	plan, err := h.RunNow(t.Context(), "keepalive", "ann", "due", nil)
	check(t, err)
	want(t, "state", plan.State, StateHeld)
	want(t, "published", len(h.stream.ids()), 0)
	held := h.held(t, 0)
	if last := held[len(held)-1]; !strings.Contains(last.Reason, "its estimate of 3.00 (3.00 of it list price, no renewal paid yet) exceeds") {
		t.Error(last.Reason)
	}
	h.config.Offers = nil // the recorded plan has its prices without the provider
	h.restart(t)
	shown, err := h.HeldPlan(t.Context(), plan.Hash)
	check(t, err)
	want(t, "the plan on hold", []any{shown.ListPriceCents, shown.EstimateText()}, []any{300, "list price 3.00, no renewal paid yet"})
	all, err := h.List(t.Context())
	check(t, err)
	if !strings.Contains(all[0].Why, "1 to renew in 1 command, about list price 3.00, no renewal paid yet") {
		t.Error(all[0].Why)
	}
	check(t, h.Approve(t.Context(), plan.Hash, "ada", "checked"))
	want(t, "once it is approved", h.stream.ids(), []string{"px_1"})
}

func TestAPreviewAddsUpTheListPricesOfWhatWaits(t *testing.T) {
	s := keepalive()
	s.BudgetCents = 500
	h := newRig(t, map[string]string{"px_1": "24h", "px_2": "25h", "px_3": "26h"}, s)
	h.config.Offers = h.offers(t) // off_us_dallas costs 300
	h.restart(t)
	p, err := h.PlanNow(t.Context(), "keepalive")
	check(t, err)
	want(t, "included", ids(p), []string{"px_1"})
	want(t, "waiting", []any{len(p.LeftOut), p.LeftOut[0].ListPriceCents, p.LeftOut[1].ListPriceCents}, []any{2, int64(300), int64(300)})
	want(t, "the whole", p.WholeText(), "list price 9.00, no renewal paid yet")
	want(t, "what it is not expected to pay for", p.ReasonsOf()[0], "likely over the budget of a run: "+plans.ReasonUnpriced)
	want(t, "what the budget covers", p.CoversText(), `The budget of a run pays for about 1 of the 3; the first that it leaves out is px_2, which expires at `+noon.Add(25*time.Hour).Format(time.RFC3339))
}

// A canary in review does not delay its kind: the price in its line applies, or another canary
// shows it. The number of renewals without price and outcome is limited, to bound the risk for a
// budget.
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
		want(t, c.name, ids(p), c.want)
	}
}

func TestTrap52AnApprovalNeedsRoomForWhatHasNoPrice(t *testing.T) {
	s := keepalive()
	s.ApproveOverCents, s.DailyBudgetCents = 300, 600
	h := newRig(t, map[string]string{"px_1": "24h", "px_2": "25h", "px_de_1": "26h"}, s)
	h.paid(t, "px_1", 300)
	plan, err := h.RunNow(t.Context(), "keepalive", "ann", "due", nil)
	check(t, err)
	want(t, "held", plan.State, StateHeld)
	want(t, "included", ids(plan), []string{"px_1", "px_2"}) // no room is left for the canary
	h.watch.add(time.Second)
	h.config.Schedules[0].DailyBudgetCents = 700
	h.restart(t)
	plan, err = h.RunNow(t.Context(), "keepalive", "ann", "due", nil)
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
		s.Keep = plans.Keep{AtLeast: atLeast, Per: []string{"country_code"}}
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
