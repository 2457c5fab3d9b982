// This file forecasts schedules that keep a number of proxies per group.

package schedules

import (
	"container/heap"
	"context"
	"slices"
	"time"

	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/schedules/plans"
)

// life is one proxy of a group in a forecast.
type life struct {
	expires time.Time
	cost    plans.Price
}

// foreseeKept adds the renewals of a schedule that keeps a number of proxies per group. A
// proxy that is not due by the end of the forecast stays without a renewal.
func (s *forecaster) foreseeKept(ctx context.Context, r *scheduleRunner, lists plans.Lists, o *outlook) error {
	kept, prices := map[string][]life{}, plans.NewPrices(plans.HistoryOf(s.Ledger.Queries), r.DurationDays)
	err := s.eachDue(ctx, r, o, func(p tables.PricedProxy, expires time.Time) error {
		cost, err := prices.By(ctx, p.Proxy, p.Paid)
		if err != nil {
			return err
		}
		group := r.Keep.Group(p.Proxy)
		kept[group] = append(kept[group], life{expires, s.offers.orList(ctx, cost, r.DurationDays, p.Proxy)})
		return nil
	})
	if err != nil {
		return err
	}
	in := read{Inputs: plans.Inputs{Schedule: r.Schedule, Lists: lists, Now: o.end()}}
	staying := map[string]int{}
	if err := s.reads.readStaying(ctx, r, &in, newStayingCount(staying)); err != nil {
		return err
	}
	for group, lives := range kept {
		o.keep(r.Schedule, r.Keep.AtLeast-staying[group], lives)
	}
	return nil
}

// keep adds the renewals that keep atLeast proxies of a group alive. It decides as the
// schedule's runs do.
func (o *outlook) keep(s plans.Schedule, atLeast int, lives []life) {
	stay, due := lifeHeap(lives), []life{} // stay: not due yet
	heap.Init(&stay)
	lasts := time.Duration(s.DurationDays) * fact.Day
	for len(stay) > 0 {
		now := o.slot(stay[0].expires.Add(-s.RenewBefore))
		if !now.Before(o.end()) {
			return
		}
		for first := true; first || len(stay) > 0 && !stay[0].expires.Add(-s.RenewBefore).After(now); first = false {
			if x, ok := heap.Pop(&stay).(life); ok { // the first proxy may come due within the second of the slot
				due = append(due, x)
			}
		}
		due = bestFirst(due, now)
		renewed := min(max(atLeast-len(stay), 0), len(due))
		for _, x := range due[:renewed] {
			o.renewal(now, x.cost, 1)
			heap.Push(&stay, life{later(x.expires, now).Add(lasts), x.cost})
		}
		due = due[renewed:]
	}
}

// bestFirst returns the proxies in the order in which a plan renews them: live proxies by
// nearest expiry, then expired proxies by latest expiry. Proxies that expired more than a
// day ago are dropped.
func bestFirst(due []life, now time.Time) []life {
	due = slices.DeleteFunc(due, func(x life) bool { return x.expires.Before(now.Add(-fact.Day)) })
	slices.SortStableFunc(due, func(a, b life) int {
		if lives := a.expires.After(now); lives != b.expires.After(now) {
			if lives {
				return -1
			}
			return 1
		} else if !lives {
			return b.expires.Compare(a.expires)
		}
		return a.expires.Compare(b.expires)
	})
	return due
}

// lifeHeap is a heap ordered by nearest expiry.
type lifeHeap []life

func (h lifeHeap) Len() int           { return len(h) }
func (h lifeHeap) Less(i, j int) bool { return h[i].expires.Before(h[j].expires) }
func (h lifeHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *lifeHeap) Push(x any) {
	if one, ok := x.(life); ok {
		*h = append(*h, one)
	}
}

// Pop implements heap.Interface.
func (h *lifeHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
