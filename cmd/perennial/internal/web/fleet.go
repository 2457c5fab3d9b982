package web

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/schedules"
	"perennial/schedules/plans"
)

const (
	// fleetFresh is the age at which a figure about all proxies is outdated and computed again.
	fleetFresh = 5 * time.Second
	// forecastDays is the length of the overview's forecast.
	forecastDays = 30
	// uncoveredListed limits how many proxies without a schedule can be listed.
	uncoveredListed = 10_000
)

// end is later than every expiry in a ledger.
var end = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)

// bucket counts the proxies that expire within a period.
type bucket struct {
	Name        string
	From, Until string // bounds in the address of the list; "" means no bound
	Count       int64
}

var buckets = []struct {
	name  string
	until time.Duration // end of the bucket, counted from now; ignored for the last bucket, which has no end
}{
	{"expired", 0}, {"within a day", 24 * time.Hour}, {"1 to 3 days", 3 * 24 * time.Hour}, {"3 to 7 days", 7 * 24 * time.Hour},
	{"7 to 14 days", 14 * 24 * time.Hour}, {"14 to 30 days", 30 * 24 * time.Hour}, {"later", 0},
}

// wasListed returns an error until the account's first listing has ended. Before that, the
// counts are unknown, not 0.
func wasListed(ctx context.Context, a Account) error {
	last, err := a.Ledger().Fleet.Listing(ctx)
	if err == nil && last.Finished.IsZero() {
		err = errors.New("no listing of its proxies has ended yet")
	}
	return err
}

func (s *insight) expiries(ctx context.Context, a Account) Made[[]bucket] {
	return figureOf(ctx, s.figures, figureKey{a.AccountName(), "expiries"}, fleetFresh, func(ctx context.Context) ([]bucket, error) {
		if err := wasListed(ctx, a); err != nil {
			return nil, err
		}
		now := s.Clock().UTC().Truncate(time.Second)
		bounds := make([]time.Time, len(buckets))
		for i, b := range buckets {
			bounds[i] = now.Add(b.until)
		}
		bounds[len(bounds)-1] = end
		counts, err := a.Ledger().Metrics.CountExpiring(ctx, bounds)
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

type uncovered struct {
	Count   int64
	Nearest []tables.ExpiryPlace // the proxies that expire first
	Endless []tables.Proxy       // the first proxies whose expiry is not known, by id
}

const endlessListed = 100

func (s *insight) uncovered(ctx context.Context, a Account) Made[uncovered] {
	return figureOf(ctx, s.figures, figureKey{a.AccountName(), "uncovered"}, fleetFresh, func(ctx context.Context) (u uncovered, err error) {
		if err := wasListed(ctx, a); err != nil {
			return u, err
		}
		c, err := plans.NewCoverage(a.Schedules(), plans.HistoryOf(a.Ledger().Queries), a.ReadList)
		if err != nil {
			return u, err
		}
		err = a.Ledger().Fleet.EachExpiring(ctx, s.Clock(), end, func(p tables.Proxy) error {
			if _, covered := c.Of(p); covered || !c.Needs(p) {
				return nil
			}
			if u.Count++; len(u.Nearest) < uncoveredListed {
				u.Nearest = append(u.Nearest, tables.PlaceOf(p))
			}
			return nil
		})
		if err != nil {
			return u, err
		}
		err = a.Ledger().Fleet.WithoutExpiry(ctx, func(p tables.Proxy) error {
			if u.Count++; len(u.Endless) < endlessListed {
				u.Endless = append(u.Endless, p)
			}
			return nil
		})
		return u, err
	})
}

func (s *insight) coverage(ctx context.Context, a Account) Made[*plans.Coverage] {
	return figureOf(ctx, s.figures, figureKey{a.AccountName(), "coverage"}, fleetFresh, func(context.Context) (*plans.Coverage, error) {
		return plans.NewCoverage(a.Schedules(), plans.HistoryOf(a.Ledger().Queries), a.ReadList)
	})
}

// forecast returns the runner's forecast of what all schedules will spend over the coming days.
func (s *insight) forecast(ctx context.Context, a Account) Made[schedules.Forecast] {
	return figureOf(ctx, s.figures, figureKey{a.AccountName(), "forecast"}, fleetFresh, func(ctx context.Context) (f schedules.Forecast, err error) {
		if err = wasListed(ctx, a); err == nil {
			f, err = ask(ctx, a, verbs.Forecast, verbs.ForecastRequest{Days: forecastDays})
		}
		return f, err
	})
}

// pausedShare is a schedule's share of a cost. The schedule is paused without an end, so it
// renews nothing until an operator resumes it.
type pausedShare struct {
	Schedule string
	Cost     fact.Sum
}

type pausedShares []pausedShare

func (p pausedShares) add(schedule string, cost fact.Sum) pausedShares {
	p = slices.Clone(p)
	i := slices.IndexFunc(p, func(x pausedShare) bool { return x.Schedule == schedule })
	if i < 0 {
		return append(p, pausedShare{schedule, cost})
	}
	p[i].Cost = p[i].Cost.Join(cost)
	return p
}

func (p pausedShares) join(o pausedShares) pausedShares {
	for _, x := range o {
		p = p.add(x.Schedule, x.Cost)
	}
	return p
}

func (p pausedShares) addDay(d schedules.ForecastDay) pausedShares {
	for _, x := range d.Paused {
		p = p.add(x.Schedule, x.Charge())
	}
	return p
}

// Text lists each schedule with its part of the cost. It returns "" if p is empty.
func (p pausedShares) Text(currency string) string {
	all := make([]string, 0, len(p))
	for _, x := range p {
		all = append(all, x.Cost.Text(currency)+" by the paused schedule "+x.Schedule)
	}
	if len(all) == 0 {
		return ""
	}
	return "of it " + strings.Join(all, ", ")
}

// calendarView is a month, or this week and the next five, in UTC.
type calendarView struct {
	Name          string
	Rolling       bool         // this week and the next five
	Before, After calendarLink // the neighboring months
	Weeks         [][7]calendarDay
	Made          Made[map[string]calendarCount] // by day, such as 2026-12-31
	Sum           calendarCount
	Currency      string
}

// calendarLink is a link to a month, such as 2026-12 and December 2026.
type calendarLink struct{ Month, Name string }

func linkTo(month time.Time) calendarLink {
	return calendarLink{month.Format(monthForm), month.Format("January 2006")}
}

func (v calendarView) Pending() bool { return v.Made.Pending() }

// calendarDay is one cell. Day is "" outside the month.
type calendarDay struct {
	Day         string // such as 31, or 1 Dec
	Full        string // such as 31 December
	From, Until string
	Today       bool
	calendarCount
}

// calendarCount counts the proxies that expire on a day. Cost is the expected renewal cost of
// the proxies in a schedule.
type calendarCount struct {
	Expiring, Uncovered, Retired int64
	Cost                         fact.Sum
	Paused                       pausedShares
}

func (c *calendarCount) add(o calendarCount) {
	c.Expiring += o.Expiring
	c.Uncovered += o.Uncovered
	c.Retired += o.Retired
	c.Cost = c.Cost.Join(o.Cost)
	c.Paused = c.Paused.join(o.Paused)
}

const (
	monthForm = "2006-01"
	// rollingWeeks is the number of weeks that the calendar shows without a month.
	rollingWeeks = 6
	// calendarStep is the number of proxies read at a time.
	calendarStep = 2000
)

func (s *overviewPages) calendar(q accountRequest) (page, error) {
	ctx, today := q.Context(), s.Clock().UTC().Truncate(fact.Day)
	first, err := time.Parse(monthForm, q.URL.Query().Get("month"))
	v := calendarView{Rolling: err != nil || first.Year() < 1}
	end := first.AddDate(0, 1, 0)
	if v.Rolling {
		month := time.Date(today.Year(), today.Month(), 1, 0, 0, 0, 0, time.UTC)
		first = today.AddDate(0, 0, -weekday(today))
		end = first.AddDate(0, 0, 7*rollingWeeks)
		v.Name, v.Before, v.After = "this week and the next five", linkTo(month), linkTo(month.AddDate(0, 1, 0))
	} else {
		v.Name, v.Before, v.After = first.Format("January 2006"), linkTo(first.AddDate(0, -1, 0)), linkTo(end)
	}
	v.Currency, _ = q.account.Ledger().Currency(ctx)
	v.Made = figureOf(ctx, s.insight.figures, figureKey{q.account.AccountName(), "calendar " + first.Format(time.DateOnly) + " " + end.Format(time.DateOnly)}, fleetFresh, func(ctx context.Context) (map[string]calendarCount, error) {
		return countDays(ctx, q.account, first, end)
	})
	for day := first; day.Before(end); day = day.AddDate(0, 0, 1) {
		if len(v.Weeks) == 0 || weekday(day) == 0 {
			v.Weeks = append(v.Weeks, [7]calendarDay{})
		}
		from := day.Format(time.DateOnly)
		cell := calendarDay{Day: strconv.Itoa(day.Day()), Full: day.Format("2 January"), From: from, Until: day.AddDate(0, 0, 1).Format(time.DateOnly), Today: day.Equal(today), calendarCount: v.Made.Value[from]}
		if v.Rolling && (day.Equal(first) || day.Day() == 1) {
			cell.Day = day.Format("2 Jan")
		}
		v.Sum.add(cell.calendarCount)
		v.Weeks[len(v.Weeks)-1][weekday(day)] = cell
	}
	return page{name: "calendar", title: "Expiries in " + v.Name, data: v}, nil
}

// weekday counts the days of the week from Monday, which is 0.
func weekday(day time.Time) int { return (int(day.Weekday()) + 6) % 7 }

func countDays(ctx context.Context, a Account, first, end time.Time) (map[string]calendarCount, error) {
	if err := wasListed(ctx, a); err != nil {
		return nil, err
	}
	c, err := plans.NewCoverage(a.Schedules(), plans.HistoryOf(a.Ledger().Queries), a.ReadList)
	if err != nil {
		return nil, err
	}
	days, paused := map[string]calendarCount{}, map[string]bool{}
	for _, one := range a.Schedules() {
		x, err := a.Ledger().Sweeps.SchedulePaused(ctx, one.Name)
		if err != nil && !errors.Is(err, ledger.ErrNotFound) {
			return nil, err
		}
		paused[one.Name] = err == nil && x.Until == nil
	}
	for place := tables.From(first); ; {
		page, err := a.Ledger().Fleet.PricedPage(ctx, place, end, calendarStep)
		if err != nil {
			return nil, err
		}
		for _, p := range page {
			at := p.LastsUntil().UTC().Format(time.DateOnly)
			one, err := countOne(ctx, c, p, paused)
			if err != nil {
				return nil, err
			}
			day := days[at]
			day.add(one)
			days[at] = day
		}
		if len(page) < calendarStep {
			return days, nil
		}
		place = tables.PlaceOf(page[len(page)-1].Proxy)
	}
}

func countOne(ctx context.Context, c *plans.Coverage, p tables.PricedProxy, paused map[string]bool) (calendarCount, error) {
	one := calendarCount{Expiring: 1}
	schedule, covered := c.Of(p.Proxy)
	switch {
	case p.Retired:
		one.Retired = 1
	case !covered:
		one.Uncovered = 1
	default:
		price, err := c.Price(ctx, p)
		if err != nil {
			return one, err
		}
		one.Cost = one.Cost.Add(price.Cents)
		if paused[schedule.Name] {
			one.Paused = one.Paused.add(schedule.Name, fact.Sum{}.Add(price.Cents))
		}
	}
	return one, nil
}
