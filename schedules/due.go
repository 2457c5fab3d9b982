// This file finds the due proxies in the ledger's table, and counts how many proxies of
// each group stay.

package schedules

import (
	"context"
	"slices"
	"sync"

	"perennial/ledger/tables"
	"perennial/schedules/plans"
)

// stayingCount counts the proxies that stay, by the groups of Keep. It is safe for concurrent
// use.
type stayingCount struct {
	mu     sync.Mutex
	groups map[string]int
}

func newStayingCount(groups map[string]int) *stayingCount { return &stayingCount{groups: groups} }

func (c *stayingCount) add(group string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.groups[group] += n
}

// gathering collects due proxies up to a limit. Proxies that BarredBy excludes do not count
// against the limit, because they could fill it (trap 54). A provider may list retired and
// expired proxies indefinitely, and a continued run first finds the proxies that it has
// already renewed.
type gathering struct {
	in              *read
	filter          *plans.Filter
	staying         *stayingCount
	living, expired []tables.Proxy
	aside           []tables.Proxy      // proxies that cannot be renewed now, as many as a plan lists
	most            int                 // limit on live and expired proxies together
	first           []tables.Proxy      // one proxy of each kind that is being renewed, because its charge may show the kind's price
	kinds           map[plans.Kind]bool // kinds in first
}

// add adds one proxy. Proxies must be added in order of expiry.
func (g *gathering) add(p tables.Proxy) {
	switch why := g.in.BarredBy(g.filter, p); {
	case why != "":
		g.setAside(p, why)
	case p.ExpiresAt.After(g.in.Now):
		if len(g.living) < g.most {
			g.living = append(g.living, p)
		} else {
			g.in.Beyond++
		}
	default:
		g.expired = append(g.expired, p)
		if len(g.expired) == 2*g.most { // the most recently expired proxies are the most likely to be renewable
			g.in.Beyond += g.most
			g.expired = append(g.expired[:0], g.expired[g.most:]...)
		}
	}
}

// setAside keeps the first proxy of each kind that is being renewed. It keeps other proxies
// that cannot be renewed now while the plan has room to list them, and counts the rest.
func (g *gathering) setAside(p tables.Proxy, why string) {
	if tells := why == plans.ReasonTaken || why == plans.ReasonOnItsWay; tells && !g.kinds[plans.KindOf(p)] {
		g.kinds[plans.KindOf(p)] = true
		g.first = append(g.first, p)
		return
	}
	if len(g.aside) < plans.MaxListed {
		g.aside = append(g.aside, p)
		return
	}
	g.in.Barred[why]++
	if g.in.Schedule.Keep.AtLeast > 0 && g.in.BeingRenewed(p) {
		g.staying.add(g.in.Schedule.Keep.Group(p), 1)
	}
}

// gathered returns the proxies to plan, in this order: proxies of kinds that are being
// renewed, live proxies by nearest expiry, expired proxies by latest expiry, proxies that
// cannot be renewed now.
func (g *gathering) gathered() []tables.Proxy {
	slices.Reverse(g.expired)
	room := g.most - len(g.living)
	if over := len(g.expired) - room; over > 0 {
		g.in.Beyond += over
		g.expired = g.expired[:room]
	}
	return slices.Concat(g.first, g.living, g.expired, g.aside)
}

func (s *reader) readDue(ctx context.Context, r *scheduleRunner, in *read, staying *stayingCount) error {
	in.Barred = map[string]int{}
	g := &gathering{in: in, filter: r.Match.Filter(in.Lists), staying: staying, most: s.considered, kinds: map[plans.Kind]bool{}}
	err := s.Ledger.Fleet.Expiring(ctx, in.Now.Add(r.RenewBefore), func(p tables.Proxy) error {
		if g.filter.About(p) || g.filter.Undecided(p) {
			g.add(p)
		}
		return nil
	})
	in.Proxies = g.gathered()
	return err
}

func (s *reader) readStaying(ctx context.Context, r *scheduleRunner, in *read, staying *stayingCount) error {
	if r.Keep.AtLeast == 0 {
		return nil
	}
	fits, until := r.Match.Filter(in.Lists), in.Now.Add(r.RenewBefore)
	count := func(p tables.Proxy, n int) {
		if fits.Fits(p) {
			staying.add(r.Keep.Group(p), n)
		}
	}
	if !r.Match.Single() {
		return s.Ledger.Fleet.CountStaying(ctx, until, slices.Concat(r.Keep.Per, r.Match.Fields()), func(like tables.Proxy, n int) error { count(like, n); return nil })
	}
	return s.Ledger.Fleet.Staying(ctx, until, func(p tables.Proxy) error { count(p, 1); return nil })
}
