// The proxies that a forecast renews: counted where they need not be told apart, and kept
// until the ledger's answer changes.

package schedules

import (
	"context"
	"slices"
	"time"

	"perennial/ledger/fact"
	"perennial/ledger/sleep"
	"perennial/ledger/tables"
	"perennial/schedules/plans"
)

// turn is one schedule of a forecast: it takes what it fits and no earlier one takes.
type turn struct {
	fits  *plans.Filter
	until time.Time // the last expiry, as the provider shows it, that the forecast reads
}

// taken reports whether an earlier schedule takes a proxy that shows this expiry.
func (o *outlook) taken(p tables.Proxy, shown time.Time) bool {
	return slices.ContainsFunc(o.turns[:len(o.turns)-1], func(earlier turn) bool { return !shown.After(earlier.until) && earlier.fits.Fits(p) })
}

// single reports whether who takes a proxy depends on fields that differ for each.
func (o *outlook) single() bool {
	return slices.ContainsFunc(o.turns, func(t turn) bool { return t.fits.Single() })
}

func (o *outlook) readsFiles() bool {
	return slices.ContainsFunc(o.turns, func(t turn) bool { return t.fits.ProxyIDsFile != "" || t.fits.ExceptProxyIDsFile != "" })
}

// eachDue calls yield, in the order of the shown expiries, for each proxy that the current
// schedule takes, with when it expires by its renewals so far.
func (s *forecaster) eachDue(ctx context.Context, r *scheduleRunner, o *outlook, yield func(tables.PricedProxy, time.Time) error) error {
	claimed, err := s.Ledger.Operations.Claimed(ctx)
	if err != nil {
		return err
	}
	current := o.turns[len(o.turns)-1]
	return s.Ledger.Fleet.Priced(ctx, current.until, func(p tables.PricedProxy) error {
		if !current.fits.Fits(p.Proxy) || p.Retired || o.taken(p.Proxy, *p.ExpiresAt) {
			return nil
		}
		expires := *p.LastsUntil()
		if claimed[p.ProxyID] || p.Unread() && p.ExpectedExpiresAt == nil { // its renewal is in progress, or done and not listed yet
			expires = expires.Add(time.Duration(r.DurationDays) * fact.Day)
		}
		return yield(p, expires)
	})
}

// dueCount counts the proxies that the current schedule takes.
type dueCount struct {
	revision int64     // of the ledger, before it was read
	now      time.Time // of the outlook
	priced   []priced
	due      []alike
}

// priced is one price by past payments, with a proxy of its kind.
type priced struct {
	like tables.Proxy
	cost plans.Price
}

// alike are proxies of one price that expire together, in microseconds.
type alike struct {
	expires   int64
	priced, n int32
}

// countKey names what a dueCount depends on besides the ledger. Within one forecast the
// schedules before the last are always the same.
type countKey struct {
	schedule string
	first    bool // no schedule has its turn before
	until    int64
}

// dueCounts keeps counts between two looks: a page asks every few seconds, and a fleet
// seldom changes in between.
type dueCounts struct {
	turn sleep.Lock // held while counting: who asks meanwhile gets the same count
	of   map[countKey]dueCount
}

func newDueCounts() *dueCounts { return &dueCounts{sleep.NewLock(), map[countKey]dueCount{}} }

// countsMost bounds the entries of all counts: 16 bytes each.
const countsMost = 2_000_000

// countDue counts the proxies that the current schedule takes, or returns the last count if
// nothing has changed. A count stays true as time passes: see ledger.DueCount. Until the day
// ends no proxy that still lived has expired for as long as a renewal lasts.
func (s *forecaster) countDue(ctx context.Context, r *scheduleRunner, o *outlook) (dueCount, error) {
	if err := s.counted.turn.Take(ctx); err != nil {
		return dueCount{}, err
	}
	defer s.counted.turn.Give()
	revision, known := s.Ledger.Revision()
	key := countKey{r.Name, len(o.turns) == 1, o.turns[len(o.turns)-1].until.UnixMicro()}
	if kept, ok := s.counted.of[key]; ok && known && kept.revision == revision && !kept.now.After(o.now) {
		return kept, nil
	}
	c := counting{prices: plans.NewPrices(plans.HistoryOf(s.Ledger.Queries), r.DurationDays), kinds: map[pricedKey]int32{}, dueCount: dueCount{revision: revision, now: o.now}}
	var err error
	if o.single() {
		err = s.countSingly(ctx, r, o, &c)
	} else {
		err = s.countTogether(ctx, r, o, &c)
	}
	if err == nil && known && !o.readsFiles() { // which change without the ledger
		s.counted.keep(key, c.dueCount)
	}
	return c.dueCount, err
}

// keep keeps a count, and forgets those of earlier revisions.
func (d *dueCounts) keep(key countKey, c dueCount) {
	entries := len(c.due)
	for k, other := range d.of {
		if entries += len(other.due); other.revision != c.revision || entries > countsMost {
			delete(d.of, k)
		}
	}
	d.of[key] = c
}

// counting adds proxies to a count.
type counting struct {
	dueCount

	prices *plans.Prices
	kinds  map[pricedKey]int32
}

type pricedKey struct {
	kind plans.Kind
	paid tables.Paid
}

func (c *counting) add(ctx context.Context, p tables.Proxy, paid tables.Paid, expires time.Time, n int) error {
	key := pricedKey{plans.KindOf(p), paid}
	at, known := c.kinds[key]
	if !known {
		cost, err := c.prices.By(ctx, p, paid)
		if err != nil {
			return err
		}
		at = int32(len(c.priced))
		c.kinds[key], c.priced = at, append(c.priced, priced{p, cost})
	}
	c.due = append(c.due, alike{expires.UnixMicro(), at, int32(n)})
	return nil
}

func (s *forecaster) countSingly(ctx context.Context, r *scheduleRunner, o *outlook, c *counting) error {
	return s.eachDue(ctx, r, o, func(p tables.PricedProxy, expires time.Time) error {
		return c.add(ctx, p.Proxy, p.Paid, expires, 1)
	})
}

// countTogether reads one part for each bound of an earlier schedule: within a part an
// earlier schedule takes all proxies of a kind and status, or none.
func (s *forecaster) countTogether(ctx context.Context, r *scheduleRunner, o *outlook, c *counting) error {
	current := o.turns[len(o.turns)-1]
	bounds := []time.Time{current.until}
	for _, earlier := range o.turns[:len(o.turns)-1] {
		if earlier.until.Before(current.until) {
			bounds = append(bounds, earlier.until)
		}
	}
	slices.SortFunc(bounds, time.Time.Compare)
	part := tables.DuePart{Now: o.now, Lead: r.RenewBefore, Lasts: time.Duration(r.DurationDays) * fact.Day}
	for _, part.Until = range slices.Compact(bounds) {
		err := s.Ledger.Fleet.CountPriced(ctx, part, func(x tables.DueCount) error {
			if !current.fits.Fits(x.Like) || o.taken(x.Like, part.Until) {
				return nil
			}
			return c.add(ctx, x.Like, x.Paid, x.Expires, x.N)
		})
		if err != nil {
			return err
		}
		part.After = part.Until
	}
	return nil
}
