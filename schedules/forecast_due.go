// This file counts the proxies that a forecast renews, and caches the counts while the
// ledger does not change.

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

// turn is one schedule of a forecast. A proxy belongs to the first schedule whose match
// selects it.
type turn struct {
	fits  *plans.Filter
	until time.Time // latest expiry that the forecast reads
}

// taken reports whether an earlier schedule renews the proxy. shown is the expiry that the
// provider shows for the proxy.
func (o *outlook) taken(p tables.Proxy, shown time.Time) bool {
	return slices.ContainsFunc(o.turns[:len(o.turns)-1], func(earlier turn) bool { return !shown.After(earlier.until) && earlier.fits.Fits(p) })
}

// single reports whether a match depends on fields that differ for each proxy.
func (o *outlook) single() bool {
	return slices.ContainsFunc(o.turns, func(t turn) bool { return t.fits.Single() })
}

func (o *outlook) readsFiles() bool {
	return slices.ContainsFunc(o.turns, func(t turn) bool { return t.fits.ProxyIDsFile != "" || t.fits.ExceptProxyIDsFile != "" })
}

// eachDue calls yield for each proxy that the current schedule renews, ordered by the expiry
// that the provider shows. yield also gets the proxy's expiry after its known renewals.
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
		if claimed[p.ProxyID] || p.Unread() && p.ExpectedExpiresAt == nil { // its renewal is in progress, or has ended but is not listed yet
			expires = expires.Add(time.Duration(r.DurationDays) * fact.Day)
		}
		return yield(p, expires)
	})
}

// dueCount counts the proxies that the current schedule renews.
type dueCount struct {
	revision int64     // the ledger's revision before the count
	now      time.Time // time of the outlook
	priced   []priced
	due      []alike
}

// priced is one expected cost, and a proxy of the kind that has this cost.
type priced struct {
	like tables.Proxy
	cost plans.Price
}

// alike is a number of proxies with the same expected cost and expiry (in microseconds).
type alike struct {
	expires   int64
	priced, n int32
}

// countKey identifies a dueCount within one revision of the ledger. In forecasts for all
// schedules, the schedules before this one are always the same.
type countKey struct {
	schedule string
	first    bool // no other schedule precedes it
	until    int64
}

// dueCounts caches counts, because the web UI requests a forecast every few seconds and a
// fleet seldom changes between requests.
type dueCounts struct {
	turn sleep.Lock // held during a count, so that concurrent requests share the count
	of   map[countKey]dueCount
}

func newDueCounts() *dueCounts { return &dueCounts{sleep.NewLock(), map[countKey]dueCount{}} }

// countsMost limits how many entries, of 16 bytes each, all cached counts have together.
const countsMost = 2_000_000

// countDue counts the proxies that the current schedule renews, or returns the cached count
// if the ledger has not changed. A cached count is used until the day ends, and stays valid
// until then (see tables.DueCount). By then, no proxy that was live at the count has been
// expired for as long as a renewal lasts.
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
	if err == nil && known && !o.readsFiles() { // files may change although the ledger does not
		s.counted.keep(key, c.dueCount)
	}
	return c.dueCount, err
}

// keep caches a count. It drops counts of other revisions, and other counts if together they
// have more than countsMost entries.
func (d *dueCounts) keep(key countKey, c dueCount) {
	entries := len(c.due)
	for k, other := range d.of {
		if entries += len(other.due); other.revision != c.revision || entries > countsMost {
			delete(d.of, k)
		}
	}
	d.of[key] = c
}

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

// countTogether counts groups of proxies. It makes one query for each range of expiries
// between the bounds of earlier schedules. Within such a range, an earlier schedule renews
// all proxies of the same kind and status, or none.
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
