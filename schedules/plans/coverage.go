// Which schedule of an account renews a proxy, at what price, and when it fires: what a
// page says of proxies without a sweeper.

package plans

import (
	"context"
	"fmt"
	"sync"
	"time"

	"perennial/ledger"
)

// Coverage says which schedule renews a proxy. It is of the lists of proxies, and of the
// prices, as they were when it was made. It may be used from any goroutine.
type Coverage struct {
	of []covering
	mu sync.Mutex // of the planners, which remember prices
}

type covering struct {
	Schedule

	fits    *Filter
	planner *planner
}

// NewCoverage is the coverage by an account's schedules, whose lists read reads.
func NewCoverage(all []Schedule, known History, read func(name string) ([]byte, error)) (*Coverage, error) {
	c := &Coverage{of: make([]covering, 0, len(all))}
	for _, s := range all {
		lists, err := s.Match.ReadLists(read)
		if err != nil {
			return nil, fmt.Errorf("schedule %s: %w", s.Name, err)
		}
		p := newPlanner(Inputs{Schedule: s, Lists: lists}, known)
		c.of = append(c.of, covering{s, p.filter, p})
	}
	return c, nil
}

// Needs reports whether a schedule has to renew the proxy: it expires, and a person has
// not retired it.
func (*Coverage) Needs(p ledger.Proxy) bool { return p.ExpiresAt != nil && !p.Retired }

// Of is the first schedule, in the order of the configuration, that renews a proxy.
func (c *Coverage) Of(p ledger.Proxy) (s Schedule, covered bool) {
	if one := c.find(p); one != nil {
		return one.Schedule, true
	}
	return Schedule{}, false
}

// States of a proxy that its schedule decides; those of an open renewal are the ledger's.
const (
	ProxyDue         = "due"
	ProxyUnscheduled = "not scheduled"
)

// ProxyStates are all states of a proxy.
var ProxyStates = []string{ProxyDue, ledger.ProxyRenewing, ledger.ProxyInReview, ProxyUnscheduled, ledger.ProxyRetired}

// State is what becomes of a proxy, one of ProxyStates; "" for one that is not due yet or
// never is.
func (c *Coverage) State(p ledger.PricedProxy, now time.Time) string {
	s, covered := c.Of(p.Proxy)
	switch {
	case p.Renewal != "":
		return p.Renewal
	case p.Retired:
		return ledger.ProxyRetired
	case c.Needs(p.Proxy) && !covered:
		return ProxyUnscheduled
	case c.Needs(p.Proxy) && !p.LastsUntil().After(now.Add(s.RenewBefore)):
		return ProxyDue
	}
	return ""
}

// Excepting is the first schedule that would renew the proxy if it were not its exception.
func (c *Coverage) Excepting(p ledger.Proxy) (s Schedule, found bool) {
	for _, one := range c.of {
		if one.fits.About(p) {
			return one.Schedule, true
		}
	}
	return Schedule{}, false
}

func (c *Coverage) find(p ledger.Proxy) *covering {
	for i := range c.of {
		if c.of[i].fits.Fits(p) {
			return &c.of[i]
		}
	}
	return nil
}

// Price is what the next renewal by the schedule that covers a proxy is expected to cost;
// zero for a proxy that none covers.
func (c *Coverage) Price(ctx context.Context, p ledger.PricedProxy) (Price, error) {
	one := c.find(p.Proxy)
	if one == nil {
		return Price{}, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return one.planner.prices.By(ctx, p.Proxy, p.Paid)
}

// Barred is why sweeps leave out a listed proxy that expires, whatever it costs: one of the
// reasons of plans, "" where they do not. Claims are not looked at.
func (c *Coverage) Barred(ctx context.Context, p ledger.Proxy, now time.Time) (why string, err error) {
	one := c.find(p)
	if one == nil {
		return "", nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	one.planner.in.Now = now
	_, why, err = one.planner.barred(ctx, p)
	one.planner.plan.ForPerson = nil
	return why, err
}

// Slots are the next slots of a schedule after an instant, up to n.
func (s Schedule) Slots(after time.Time, n int) (all []time.Time, zone *time.Location, err error) {
	c, err := s.Calendar()
	if err != nil {
		return nil, nil, err
	}
	for at := c.Next(after); len(all) < n && !at.IsZero(); at = c.Next(at) {
		all = append(all, at)
	}
	return all, c.Zone, nil
}

// DueOn is from when to when the proxies expire that come due between two instants. What
// was due before now is due at now.
func (s Schedule) DueOn(from, until, now time.Time) (expiresFrom, expiresUntil time.Time) {
	expiresFrom, expiresUntil = from.Add(s.RenewBefore), until.Add(s.RenewBefore)
	if !from.After(now) && until.After(now) {
		expiresFrom = time.Unix(0, 0)
	}
	return expiresFrom, expiresUntil
}
