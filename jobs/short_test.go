package jobs

import (
	"context"
	"strings"
	"testing"

	"perennial/jobs/decide"
	"perennial/jobs/inspect"
	"perennial/ledger/fact"
	"perennial/upstream"
)

// shorting is a provider that shows only one proxy of every finished order.
type shorting struct{ *upstream.Client }

func (p shorting) Order(ctx context.Context, orderNo string) (upstream.Order, error) {
	o, err := p.Client.Order(ctx, orderNo)
	if len(o.Proxies) > 1 {
		o.Proxies, o.Delivery.DeliveredCount = o.Proxies[:1], 1
	}
	return o, err
}

func TestTrap62AShortOrderShowsWhatItLacks(t *testing.T) {
	h := idleRig(t)
	h.bind(func(c *Config) { c.Provider = shorting{h.client} })
	h.start()
	h.order(`{"id":"buy","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":3}]}`)
	h.await("buy", fact.StateDelivered)
	f, ok := h.awaitFact("ledger.discrepancy").(fact.LedgerDiscrepancy)
	if !ok || f.Finding != decide.FindingShort || f.OrderNo == "" || f.OperationID != "buy/1" || !strings.Contains(f.Explanation, "ordered 3, expected 3, delivered 1, listed 1") {
		t.Errorf("the finding: %+v", f)
	}
	status, err := inspect.Status(t.Context(), h.ledger, "buy")
	check(t, err)
	if o := status.Operations[0]; o.DeliveredCount != 1 || o.ExpectedCount != 3 || len(o.ProxyIDs) != 1 || o.Reason != "1 of 3 proxies were delivered" {
		t.Errorf("status: %+v", o)
	}
	end, ok := h.awaitFact("command.finished").(fact.CommandFinished)
	if !ok || end.Operations[0].DeliveredCount != 1 || end.Operations[0].ExpectedCount != 3 || end.LinesTotal != 1 || end.Reason == "" {
		t.Errorf("the end: %+v", end)
	}
}
