package plans

import (
	"context"
	"fmt"
	"sync"
	"time"

	"perennial/ledger/tables"
)

// Coverage knows which schedule renews a proxy. It keeps the id lists that NewCoverage read, and
// reads the price of each kind only once. It is safe for concurrent use.
type Coverage struct {
	of []covering
	mu sync.Mutex // guards the planners, which cache prices
}

type covering struct {
	Schedule

	fits    *Filter
	planner *planner
}

// NewCoverage returns the coverage of an account's schedules. read reads their id files.
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

// Needs reports whether a proxy needs a schedule: it expires and is not retired.
func (*Coverage) Needs(p tables.Proxy) bool { return p.ExpiresAt != nil && !p.Retired }

// Of returns the first schedule, in configuration order, that renews a proxy. covered is
// false if there is none.
func (c *Coverage) Of(p tables.Proxy) (s Schedule, covered bool) {
	if one := c.find(p); one != nil {
		return one.Schedule, true
	}
	return Schedule{}, false
}

// AllOf returns every schedule that renews a proxy, in configuration order.
func (c *Coverage) AllOf(p tables.Proxy) (all []Schedule) {
	for _, one := range c.of {
		if one.fits.Fits(p) {
			all = append(all, one.Schedule)
		}
	}
	return all
}

// States of a proxy that come from the schedules. The other states come from the ledger.
const (
	ProxyDue         = "due"
	ProxyUnscheduled = "not scheduled"
)

// ProxyStates lists all values that State returns, except "".
var ProxyStates = []string{ProxyDue, tables.ProxyRenewing, tables.ProxyInReview, ProxyUnscheduled, tables.ProxyRetired}

// State returns the proxy's state, one of ProxyStates. It returns "" if the proxy is not
// due yet or never expires.
func (c *Coverage) State(p tables.PricedProxy, now time.Time) string {
	s, covered := c.Of(p.Proxy)
	switch {
	case p.Renewal != "":
		return p.Renewal
	case p.Retired:
		return tables.ProxyRetired
	case c.Needs(p.Proxy) && !covered:
		return ProxyUnscheduled
	case c.Needs(p.Proxy) && !p.LastsUntil().After(now.Add(s.RenewBefore)):
		return ProxyDue
	}
	return ""
}

// Excepting returns the first schedule whose match selects the proxy, even if the proxy is an
// exception.
func (c *Coverage) Excepting(p tables.Proxy) (s Schedule, found bool) {
	for _, one := range c.of {
		if one.fits.About(p) {
			return one.Schedule, true
		}
	}
	return Schedule{}, false
}

func (c *Coverage) find(p tables.Proxy) *covering {
	for i := range c.of {
		if c.of[i].fits.Fits(p) {
			return &c.of[i]
		}
	}
	return nil
}

// Price returns the expected cost of the proxy's next renewal by its schedule. The price is zero
// if no schedule renews the proxy.
func (c *Coverage) Price(ctx context.Context, p tables.PricedProxy) (Price, error) {
	one := c.find(p.Proxy)
	if one == nil {
		return Price{}, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return one.planner.prices.By(ctx, p.Proxy, p.Paid)
}

// Barred returns a reason other than cost why schedules skip a listed proxy that expires. It
// returns "" if there is none. For ReasonBackoff, retry is when the wait ends. Barred ignores open
// renewals.
func (c *Coverage) Barred(ctx context.Context, p tables.Proxy, now time.Time) (why string, retry time.Time, err error) {
	one := c.find(p)
	if one == nil {
		return "", retry, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	one.planner.in.Now = now
	if err := one.planner.look(ctx, []tables.Proxy{p}); err != nil {
		return "", retry, err
	}
	_, why, err = one.planner.barred(p)
	if one.planner.plan.ForPerson = nil; why == ReasonBackoff {
		retry = retryAt(one.planner.history[p.ProxyID].Failed, *p.ExpiresAt)
	}
	return why, retry, err
}

// Slots returns up to n scheduled times after an instant, and the schedule's time zone.
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

// DueOn returns the range of expiries of the proxies that come due between two instants. A
// proxy that is already due counts as coming due now.
func (s Schedule) DueOn(from, until, now time.Time) (expiresFrom, expiresUntil time.Time) {
	expiresFrom, expiresUntil = from.Add(s.RenewBefore), until.Add(s.RenewBefore)
	if !from.After(now) && until.After(now) {
		expiresFrom = time.Unix(0, 0)
	}
	return expiresFrom, expiresUntil
}
