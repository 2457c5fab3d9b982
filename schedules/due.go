// Which proxies of the ledger's table are due, and how many of each group stay.

package schedules

import (
	"context"
	"slices"
	"sync"

	"perennial/ledger"
	"perennial/schedules/plans"
)

// headcount counts, by Keep's groups, what stays; two readers add to it at once.
type headcount struct {
	mu     sync.Mutex
	groups map[string]int
}

func newHeadcount(groups map[string]int) *headcount { return &headcount{groups: groups} }

func (c *headcount) add(group string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.groups[group] += n
}

// gathering collects what is due. Proxies that cannot be renewed now do not use up the
// bound for those that can: a provider may list retired and long expired proxies for
// ever, and a large sweep meets those that it has renewed already first (trap 54).
type gathering struct {
	in              *read
	filter          *plans.Filter
	staying         *headcount
	living, expired []ledger.Proxy
	aside           []ledger.Proxy      // what is barred, as many as a plan names
	most            int                 // of living and expired together
	first           []ledger.Proxy      // one of each kind whose renewal is on its way, and may tell a price
	kinds           map[plans.Kind]bool // those of first
}

// add takes one proxy; they come in the order of their expiries.
func (g *gathering) add(p ledger.Proxy) {
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
		if len(g.expired) == 2*g.most { // the latest expired are the likeliest to be renewed
			g.in.Beyond += g.most
			g.expired = append(g.expired[:0], g.expired[g.most:]...)
		}
	}
}

// setAside keeps as many as the plan names, and one of each kind whose renewal is
// on its way; the others are counted.
func (g *gathering) setAside(p ledger.Proxy, why string) {
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

// gathered are the proxies to plan: first those that their kinds wait for, then what
// lives, the nearest expiry first, then what has expired, the latest first, then what is
// only named.
func (g *gathering) gathered() []ledger.Proxy {
	slices.Reverse(g.expired)
	room := g.most - len(g.living)
	if over := len(g.expired) - room; over > 0 {
		g.in.Beyond += over
		g.expired = g.expired[:room]
	}
	return slices.Concat(g.first, g.living, g.expired, g.aside)
}

func (s *reader) readDue(ctx context.Context, r *scheduleRunner, in *read, staying *headcount) error {
	in.Barred = map[string]int{}
	g := &gathering{in: in, filter: r.Match.Filter(in.Lists), staying: staying, most: s.considered, kinds: map[plans.Kind]bool{}}
	err := s.Ledger.Expiring(ctx, in.Now.Add(r.RenewBefore), func(p ledger.Proxy) error {
		if g.filter.About(p) || g.filter.Undecided(p) {
			g.add(p)
		}
		return nil
	})
	in.Proxies = g.gathered()
	return err
}

func (s *reader) readStaying(ctx context.Context, r *scheduleRunner, in *read, staying *headcount) error {
	if r.Keep.AtLeast == 0 {
		return nil
	}
	fits, until := r.Match.Filter(in.Lists), in.Now.Add(r.RenewBefore)
	count := func(p ledger.Proxy, n int) {
		if fits.Fits(p) {
			staying.add(r.Keep.Group(p), n)
		}
	}
	if !r.Match.Single() {
		return s.Ledger.CountStaying(ctx, until, slices.Concat(r.Keep.Per, r.Match.Fields()), func(like ledger.Proxy, n int) error { count(like, n); return nil })
	}
	return s.Ledger.Staying(ctx, until, func(p ledger.Proxy) error { count(p, 1); return nil })
}
