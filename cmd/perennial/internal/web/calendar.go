// The calendar of expiries. For each day of a month, it shows how many proxies expire, what
// their renewal will cost, and how many are in no schedule.

package web

import (
	"context"
	"errors"
	"time"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/schedules/plans"
)

// calendarView is one month, in UTC.
type calendarView struct {
	Month, Before, After string // such as 2026-12
	Name                 string
	Weeks                [][7]calendarDay
	Made                 Made[map[int]calendarCount]
	Sum                  calendarCount
	Currency             string
}

// Pending reports whether the page must be reloaded to show its data.
func (v calendarView) Pending() bool { return v.Made.Pending() }

// calendarDay is one cell. Day is 0 outside the month.
type calendarDay struct {
	Day         int
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
	// calendarStep is the number of proxies read at a time.
	calendarStep = 2000
)

func (s *overviewPages) calendar(q accountRequest) {
	ctx, today := q.Context(), s.Clock().UTC()
	month, err := time.Parse(monthForm, q.URL.Query().Get("month"))
	if err != nil || month.Year() < 1 {
		month = time.Date(today.Year(), today.Month(), 1, 0, 0, 0, 0, time.UTC)
	}
	v := calendarView{Month: month.Format(monthForm), Before: month.AddDate(0, -1, 0).Format(monthForm), After: month.AddDate(0, 1, 0).Format(monthForm), Name: month.Format("January 2006")}
	v.Currency, _ = q.account.Ledger().Currency(ctx)
	v.Made = figureOf(ctx, s.insight.figures, figureKey{q.account.AccountName(), "calendar " + v.Month}, fleetFresh, func(ctx context.Context) (map[int]calendarCount, error) {
		return countMonth(ctx, q.account, month)
	})
	column := (int(month.Weekday()) + 6) % 7 // weeks begin on Monday
	for day := month; day.Month() == month.Month(); day = day.AddDate(0, 0, 1) {
		if len(v.Weeks) == 0 || column == 7 {
			v.Weeks, column = append(v.Weeks, [7]calendarDay{}), column%7
		}
		cell := calendarDay{Day: day.Day(), From: day.Format(time.DateOnly), Until: day.AddDate(0, 0, 1).Format(time.DateOnly), Today: day.Format(time.DateOnly) == today.Format(time.DateOnly)}
		cell.calendarCount = v.Made.Value[day.Day()]
		v.Sum.add(cell.calendarCount)
		v.Weeks[len(v.Weeks)-1][column] = cell
		column++
	}
	s.frame.show(q, "calendar", "Expiries in "+v.Name, v)
}

// countMonth counts a month's expiries by day.
func countMonth(ctx context.Context, a Account, month time.Time) (map[int]calendarCount, error) {
	if err := wasListed(ctx, a); err != nil {
		return nil, err
	}
	c, err := plans.NewCoverage(a.Schedules(), plans.HistoryOf(a.Ledger().Queries), a.ReadList)
	if err != nil {
		return nil, err
	}
	days, paused := map[int]calendarCount{}, map[string]bool{}
	for _, one := range a.Schedules() {
		x, err := a.Ledger().Sweeps.SchedulePaused(ctx, one.Name)
		if err != nil && !errors.Is(err, ledger.ErrNotFound) {
			return nil, err
		}
		paused[one.Name] = err == nil && x.Until == nil
	}
	for place := tables.From(month); ; {
		page, err := a.Ledger().Fleet.PricedPage(ctx, place, month.AddDate(0, 1, 0), calendarStep)
		if err != nil {
			return nil, err
		}
		for _, p := range page {
			day := days[p.LastsUntil().UTC().Day()]
			one, err := countOne(ctx, c, p, paused)
			if err != nil {
				return nil, err
			}
			day.add(one)
			days[p.LastsUntil().UTC().Day()] = day
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
