// Figures of all proxies of an account: how many expire when, which no schedule covers,
// and what their renewals are expected to cost.

package web

import (
	"context"
	"errors"
	"time"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/ledger"
	"perennial/schedules"
	"perennial/schedules/plans"
)

const (
	// fleetFresh is how old a figure of all proxies may be.
	fleetFresh = 5 * time.Second
	// forecastDays are those of the forecast on the first page.
	forecastDays = 30
	// uncoveredListed is how many proxies that no schedule covers are listed.
	uncoveredListed = 10_000
)

// end is after every expiry that a ledger holds.
var end = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)

// bucket is proxies that expire in a span of time.
type bucket struct {
	Name        string
	From, Until string // for the address of their list; "" has no bound
	Count       int64
}

var buckets = []struct {
	name  string
	until time.Duration // 0 of the last: no end
}{
	{"expired", 0}, {"within a day", 24 * time.Hour}, {"1 to 3 days", 3 * 24 * time.Hour}, {"3 to 7 days", 7 * 24 * time.Hour},
	{"7 to 14 days", 14 * 24 * time.Hour}, {"14 to 30 days", 30 * 24 * time.Hour}, {"later", 0},
}

// wasListed is an error until a listing of the account has ended: what was not listed is not
// known, and no figure of 0.
func wasListed(ctx context.Context, a Account) error {
	last, err := a.Ledger().Listing(ctx)
	if err == nil && last.Finished.IsZero() {
		err = errors.New("no listing of its proxies has ended yet")
	}
	return err
}

// expiries counts the proxies of an account by the days that they have left.
func (s *Server) expiries(ctx context.Context, a Account) Made[[]bucket] {
	return figureOf(ctx, s.figures, "expiries:"+a.AccountName(), fleetFresh, func(ctx context.Context) ([]bucket, error) {
		if err := wasListed(ctx, a); err != nil {
			return nil, err
		}
		now := s.Clock().UTC().Truncate(time.Second)
		bounds := make([]time.Time, len(buckets))
		for i, b := range buckets {
			bounds[i] = now.Add(b.until)
		}
		bounds[len(bounds)-1] = end
		counts, err := a.Ledger().CountExpiring(ctx, bounds)
		if err != nil {
			return nil, err
		}
		all, before := make([]bucket, len(buckets)), int64(0)
		for i, b := range buckets {
			all[i] = bucket{Name: b.name, Count: counts[i] - before}
			before = counts[i]
			if i > 0 {
				all[i].From = bounds[i-1].Format(time.RFC3339)
			}
			if i < len(buckets)-1 {
				all[i].Until = bounds[i].Format(time.RFC3339)
			}
		}
		return all, nil
	})
}

// uncovered are the proxies that no schedule renews.
type uncovered struct {
	Count   int64
	Nearest []ledger.ExpiryPlace // the first of them to expire
}

func (s *Server) uncovered(ctx context.Context, a Account) Made[uncovered] {
	return figureOf(ctx, s.figures, "uncovered:"+a.AccountName(), fleetFresh, func(ctx context.Context) (u uncovered, err error) {
		if err := wasListed(ctx, a); err != nil {
			return u, err
		}
		c, err := plans.NewCoverage(a.Schedules(), a.Ledger(), a.ReadList)
		if err != nil {
			return u, err
		}
		err = a.Ledger().EachExpiring(ctx, s.Clock(), end, func(p ledger.Proxy) error {
			if _, covered := c.Of(p); covered || !c.Needs(p) {
				return nil
			}
			if u.Count++; len(u.Nearest) < uncoveredListed {
				u.Nearest = append(u.Nearest, ledger.PlaceOf(p))
			}
			return nil
		})
		return u, err
	})
}

// coverage is which schedule renews which proxy of an account.
func (s *Server) coverage(ctx context.Context, a Account) Made[*plans.Coverage] {
	return figureOf(ctx, s.figures, "coverage:"+a.AccountName(), fleetFresh, func(context.Context) (*plans.Coverage, error) {
		return plans.NewCoverage(a.Schedules(), a.Ledger(), a.ReadList)
	})
}

// forecast is what all schedules of an account are expected to charge in the next days, as
// its runner says.
func (s *Server) forecast(ctx context.Context, a Account) Made[schedules.Forecast] {
	return figureOf(ctx, s.figures, "forecast:"+a.AccountName(), fleetFresh, func(ctx context.Context) (f schedules.Forecast, err error) {
		if err = wasListed(ctx, a); err == nil {
			f, err = ask(ctx, a, verbs.Forecast, verbs.ForecastRequest{Days: forecastDays})
		}
		return f, err
	})
}
