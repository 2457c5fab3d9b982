// The forecast of schedules that keep a number of proxies of each group.

package schedules

import (
	"container/heap"
	"context"
	"perennial/ledger/fact"
	"perennial/schedules/plans"
	"slices"
	"time"
)

// life is one proxy of a group in a forecast.
type life struct {
	expires time.Time
	cost    plans.Price
}

// keptGroups maps each group to the proxies of a schedule with keep.
type keptGroups map[string][]life

func (k keptGroups) add(group string, expires time.Time, cost plans.Price) {
	k[group] = append(k[group], life{expires, cost})
}

// foreseeKept adds the renewals of kept groups. A proxy that outlives the forecast stays
// without a renewal.
func (s *forecaster) foreseeKept(ctx context.Context, r *scheduleRunner, lists plans.Lists, o *outlook, kept keptGroups) error {
	in := read{Inputs: plans.Inputs{Schedule: r.Schedule, Lists: lists, Now: o.end()}}
	staying := map[string]int{}
	if err := s.reads.readStaying(ctx, r, &in, newHeadcount(staying)); err != nil {
		return err
	}
	for group, lives := range kept {
		o.keep(r.Schedule, r.Keep.AtLeast-staying[group], lives)
	}
	return nil
}

// keep adds the renewals that keep atLeast proxies of a group, as runs do whenever one
// more comes due.
func (o *outlook) keep(s plans.Schedule, atLeast int, lives []life) {
	stay, due := lifeHeap(lives), []life{} // stay: not due yet
	heap.Init(&stay)
	lasts := time.Duration(s.DurationDays) * fact.Day
	for len(stay) > 0 {
		now := o.slot(stay[0].expires.Add(-s.RenewBefore))
		if !now.Before(o.end()) {
			return
		}
		for len(stay) > 0 && !stay[0].expires.Add(-s.RenewBefore).After(now) {
			if x, ok := heap.Pop(&stay).(life); ok {
				due = append(due, x)
			}
		}
		due = bestFirst(due, now)
		renewed := min(max(atLeast-len(stay), 0), len(due))
		for _, x := range due[:renewed] {
			o.renewal(now, x.cost)
			heap.Push(&stay, life{later(x.expires, now).Add(lasts), x.cost})
		}
		due = due[renewed:]
	}
}

// bestFirst returns the proxies in the order in which a plan renews them: live ones,
// nearest expiry first, then expired ones, most recently expired first. Those expired for
// more than a day are dropped.
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

// lifeHeap is a heap by nearest expiry.
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
