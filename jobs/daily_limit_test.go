package jobs

import (
	"fmt"
	"testing"
	"time"

	"perennial/jobs/desk"
	"perennial/ledger/fact"
)

// Three of yesterday's renewals turn out not to be charged. That must not raise today's limit.
func TestTrap61YesterdaysRefundMakesNoRoomToday(t *testing.T) {
	h := idleRig(t)
	h.oneClock()
	h.bind(func(c *Config) { c.DailyLimitCents = 1000; c.Provider = h.client })
	h.start()
	for _, id := range []string{"px_1", "px_2", "px_3"} {
		h.fault(renew, "renewal", map[string]any{"unresolved": []string{id}})
		h.renew(`{"id":"r-` + id + `","duration_days":30,"proxy_ids":["` + id + `"]}`)
		h.await("r-"+id, fact.StateReview)
	}
	h.later(25 * time.Hour)
	for _, x := range reviewsOf(t, h) {
		check(t, h.runner.Resolve(t.Context(), desk.Resolution{ID: x.OperationID, ProxyID: x.ProxyID, Charged: new(false), By: "ada", Reason: "support"}))
	}
	for i, want := range []fact.State{fact.StateDelivered, fact.StateDelivered, fact.StateDelivered, fact.StateHeld} {
		id := fmt.Sprint("o", i)
		h.order(`{"id":"` + id + `","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":1}]}`)
		h.await(id, want)
	}
	spent, err := h.ledger.Money.Committed(t.Context(), fact.StartOfDay(h.now(), time.UTC), "")
	check(t, err)
	if spent != 900 {
		t.Errorf("%d cents are spent today instead of 900", spent)
	}
}
