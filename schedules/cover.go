// This file finds listed proxies that no schedule renews, and schedules whose match selects
// no proxy.

package schedules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/sirupsen/logrus"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/schedules/plans"
)

// errMatched stops a search after the first match.
var errMatched = errors.New("a proxy matches")

// MatchesNone returns a warning if a schedule's match selects no listed proxy, for example
// because of a misspelt country. It returns "" if the match selects a proxy, or if no proxy
// is listed.
func MatchesNone(ctx context.Context, f *tables.Fleet, s plans.Schedule, read func(name string) ([]byte, error)) (string, error) {
	if len(s.Match.Set()) == 0 {
		return "", nil
	}
	lists, err := s.Match.ReadLists(read)
	if err != nil {
		return "", err
	}
	fits, listed := s.Match.Filter(lists), 0
	err = f.Staying(ctx, time.Time{}, func(p tables.Proxy) error {
		if listed++; fits.About(p) {
			return errMatched
		}
		return nil
	})
	if errors.Is(err, errMatched) || err == nil && listed == 0 {
		return "", nil
	}
	return fmt.Sprintf("its match fits none of the %d listed proxies: is %s written right?", listed, strings.Join(s.Match.Set(), ", ")), err
}

// Uncovered calls yield for every listed proxy that expires after now and that no schedule
// renews, except retired proxies.
func Uncovered(ctx context.Context, f *tables.Fleet, now time.Time, all []plans.Schedule, read func(name string) ([]byte, error), yield func(tables.Proxy) error) error {
	c, err := plans.NewCoverage(all, nil, read)
	if err != nil {
		return err
	}
	return f.Staying(ctx, now, func(p tables.Proxy) error {
		if _, covered := c.Of(p); covered || !c.Needs(p) {
			return nil
		}
		return yield(p)
	})
}

// uncoveredNamed limits how many proxies a listing.uncovered fact lists.
const uncoveredNamed = 20

// uncovered counts the live proxies that no schedule renews.
type uncovered struct {
	*Config

	n    atomic.Pointer[int64] // count of the last complete listing; nil if unknown
	took atomic.Int64          // how long that count took, in nanoseconds
}

// recountWithin is the longest duration of a count that is repeated for each request.
const recountWithin = 100 * time.Millisecond

// countUncovered counts the live proxies that no schedule renews, and logs a count above
// zero. It publishes such a count only if the previous listing had such proxies too, because
// an order's proxies may be listed before their labels are booked.
func (s *uncovered) countUncovered(ctx context.Context) {
	n, first, began := new(int64), []tables.Proxy{}, s.Clock()
	err := Uncovered(ctx, s.Ledger.Fleet, s.providerNow(), s.Schedules, s.ReadFile, func(p tables.Proxy) error {
		*n++
		at, _ := slices.BinarySearchFunc(first, p, func(a, b tables.Proxy) int { return a.ExpiresAt.Compare(*b.ExpiresAt) })
		if at < uncoveredNamed {
			first = slices.Insert(first, at, p)
			first = first[:min(len(first), uncoveredNamed)]
		}
		return nil
	})
	s.took.Store(int64(s.Clock().Sub(began)))
	log := s.Log.WithField("account", s.Account)
	if err != nil {
		s.n.Store(nil)
		log.WithError(err).Warn("the proxies that no schedule renews could not be counted")
		return
	}
	before := s.n.Swap(n)
	if *n > 0 && (before == nil || *before == 0) {
		level := logrus.WarnLevel
		if len(s.Schedules) == 0 { // normal after a first start, when no schedules are configured
			level = logrus.InfoLevel
		}
		log.Logf(level, "no schedule renews %s, such as %.80q: see `perennial proxies list --uncovered`", english.Plural(int(*n), "living proxy", "living proxies"), first[0].ProxyID)
	}
	if err := s.tellUncovered(ctx, before, *n, first); err != nil {
		log.WithError(err).Warn("the proxies that no schedule renews could not be published; the next listing tries again")
	}
}

// tellUncovered appends the count as a fact if no such proxies remain, or if the last two
// listings both had more, or both fewer, than the last published count. It also appends the
// count if the first of the published proxies has expired. After a count above zero, the
// next count above zero is published a day later at the earliest.
func (s *uncovered) tellUncovered(ctx context.Context, before *int64, n int64, first []tables.Proxy) error {
	last, at, err := s.Ledger.Fleet.LastUncovered(ctx)
	if err != nil {
		return err
	}
	told, now := int64(last.Uncovered), s.Clock()
	switch lost := last.FirstExpiresAt != nil && last.FirstExpiresAt.Before(now); {
	case n == 0 && told > 0:
	case before == nil, min(n, *before) == 0, told > 0 && now.Sub(at) < fact.Day:
		return nil
	case min(n, *before) <= told && max(n, *before) >= told && !lost:
		return nil
	}
	f := fact.ListingUncovered{Uncovered: int(n), ProxyIDs: []string{}}
	for _, p := range first {
		f.ProxyIDs = append(f.ProxyIDs, fact.Bounded(p.ProxyID))
	}
	if n > 0 {
		f.FirstExpiresAt = first[0].ExpiresAt
	}
	return s.Ledger.Write(ctx, func(tx *ledger.Tx) error { return tx.Append(f) })
}

// Uncovered returns how many live proxies no schedule renews. known is false before the
// first complete listing. For a large fleet it returns the count of the last listing. For a
// small fleet it counts again, so that the proxies of a new order are included.
func (s *uncovered) Uncovered(ctx context.Context) (n int64, known bool) {
	listed := s.n.Load()
	if listed == nil {
		return 0, false
	}
	if s.took.Load() > int64(recountWithin) {
		return *listed, true
	}
	err := Uncovered(ctx, s.Ledger.Fleet, s.providerNow(), s.Schedules, s.ReadFile, func(tables.Proxy) error { n++; return nil })
	if err != nil {
		return *listed, true
	}
	return n, true
}
