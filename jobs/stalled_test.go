package jobs

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"perennial/ledger/fact"
	"perennial/upstream"
)

// stalling is a provider that never replies to one kind of read.
type stalling struct {
	*upstream.Client

	orders, lists atomic.Bool
	asked         atomic.Int64 // orders
}

func (p *stalling) Order(ctx context.Context, no string) (upstream.Order, error) {
	defer p.asked.Add(1)
	if p.orders.Load() {
		return upstream.Order{}, &upstream.TransportError{Err: context.DeadlineExceeded}
	}
	return p.Client.Order(ctx, no)
}

func (p *stalling) OrdersPage(ctx context.Context, page upstream.PageRequest) (upstream.Page[upstream.OrderSummary], error) {
	if p.lists.Load() {
		return upstream.Page[upstream.OrderSummary]{}, &upstream.TransportError{Err: context.DeadlineExceeded}
	}
	return p.Client.OrdersPage(ctx, page)
}

// Successful other reads do not hide that orders are not read or that the books are not
// compared.
func TestALoopThatStandsStillIsSaid(t *testing.T) {
	t.Parallel()
	h := idleRig(t)
	h.oneClock()
	provider := &stalling{Client: h.client}
	provider.orders.Store(true)
	h.bind(func(c *Config) { c.Provider, c.ReconcileEvery = provider, time.Hour })
	h.start()
	h.order(`{"id":"buy","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":1}],"sandbox_scenario":"success"}`)
	h.until("it is read", func() bool { return provider.asked.Load() > 0 })
	var passed time.Duration
	for _, loop := range []struct {
		name   string
		stalls *atomic.Bool
		turn   func()
		turns  int
		step   time.Duration
		said   func() string
		says   string
	}{
		{"poll", &provider.orders, func() {
			n := provider.asked.Load()
			h.runner.wakeDueLoop()
			h.until("it is read again", func() bool { return provider.asked.Load() > n })
		}, unsettledAttempts, 6 * time.Minute, h.runner.Unsettled, "no order could be read since"},
		{"reconcile", &provider.lists, func() { _, _ = h.runner.reconcile(t.Context(), h.runner.scheduledReading, afterTwoPasses) },
			unreconciledAfter + 1, time.Hour, h.runner.Unreconciled, "the books have not been compared with the provider since"},
	} {
		step := func() {
			passed += loop.step
			h.later(passed)
			loop.turn()
		}
		loop.stalls.Store(true)
		if said := loop.said(); said != "" {
			t.Errorf("%s, at first: %s", loop.name, said)
		}
		for range loop.turns {
			step()
		}
		if said := loop.said(); !strings.Contains(said, loop.says) || !strings.Contains(said, "deadline exceeded") {
			t.Errorf("%s: %q", loop.name, said)
		}
		loop.stalls.Store(false)
		step()
		h.until(loop.name+" works again", func() bool { return loop.said() == "" })
	}
	h.await("buy", fact.StateDelivered)
}
