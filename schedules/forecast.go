// This file forecasts the cost of renewals.

package schedules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/schedules/plans"
)

// MaxForecastDays is the largest number of days of a forecast.
const MaxForecastDays = 366

// ErrForecastDays says that a forecast's number of days is out of range.
var ErrForecastDays = fmt.Errorf("a forecast is of 1 to %d days", MaxForecastDays)

// Forecast is the expected cost of the renewals of the next days. It assumes that every
// proxy that is listed now is renewed by the first slot after it comes due, repeatedly until
// the end of the forecast. The price is the last price paid, or the list price if no renewal
// was paid yet. A schedule that keeps a number of proxies per group renews only as many as
// it needs for that. Budgets are not applied.
type Forecast struct {
	Schedules      []string       `json:"schedules" doc:"The names of the schedules."`
	At             time.Time      `json:"at" doc:"When this was read."`
	Timezone       string         `json:"timezone" doc:"The time zone of the days and scheduled times."`
	Days           []ForecastDay  `json:"days"`
	Unpriced       int            `json:"unpriced" doc:"'unpriced' counts the renewals whose price is unknown; 'charge_cents' is the sum of the other renewals."`
	ListPriceCents int64          `json:"list_price_cents,omitempty" doc:"The part of 'charge_cents' that comes from list prices, because no renewal of the kind was paid yet."`
	Currency       string         `json:"currency,omitempty" doc:"The currency of the amounts."`
	ChargeCents    fact.Cents     `json:"charge_cents"`
	WalletCents    *int64         `json:"wallet_cents,omitempty" doc:"The balance of the wallet now; omitted if it could not be read."`
	ReservedCents  int64          `json:"reserved_cents" doc:"The part of the wallet that commands in progress need."`
	RunsOutOn      string         `json:"runs_out_on,omitempty" doc:"'runs_out_on' is the first day that the wallet does not pay for. 'missing_cents' is the amount missing at the end, for renewals of known price. Both are omitted if the wallet, or a price that decides, is unknown."`
	MissingCents   fact.Cents     `json:"missing_cents"`
	FailsFirst     *ForecastSweep `json:"fails_first,omitempty" doc:"'fails_first' is the first run that the wallet does not pay for; omitted if it pays for all."`
}

// Charge returns the expected cost of the renewals.
func (f Forecast) Charge() fact.Sum { return fact.Sum{Cents: f.ChargeCents.Or(0), Lacks: f.Unpriced} }

// ForecastDay is one day of a forecast.
type ForecastDay struct {
	Day             string     `json:"day" doc:"The day, such as 2026-11-21."`
	Renewals        int        `json:"renewals" doc:"The number of renewals."`
	ChargeCents     fact.Cents `json:"charge_cents"`
	ListPriceCents  int64      `json:"list_price_cents,omitempty" doc:"The part of 'charge_cents' that comes from list prices, because no renewal of the kind was paid yet."`
	Unpriced        int        `json:"unpriced" doc:"The number of renewals whose price is unknown; 'charge_cents' does not include them."`
	OverBudgetCents int64      `json:"over_budget_cents" doc:"'over_budget_cents' is by how much the day's cost exceeds the daily budgets."`
	WalletCents     *int64     `json:"wallet_cents,omitempty" doc:"The balance at the end of the day, if renewals of unknown price cost nothing."`
	// Paused renewals are included in the other fields, although they are not made until an
	// operator resumes the schedule.
	Paused []ForecastPaused `json:"paused,omitempty" doc:"The day's renewals that belong to schedules whose pause has no end."`

	sum fact.Sum
}

// ForecastPaused is the part of a day's renewals that belongs to a schedule whose pause has
// no end.
type ForecastPaused struct {
	Schedule    string     `json:"schedule" doc:"The name of the schedule."`
	Renewals    int        `json:"renewals" doc:"The number of renewals."`
	ChargeCents fact.Cents `json:"charge_cents"`
	Unpriced    int        `json:"unpriced" doc:"The number of renewals whose price is unknown; 'charge_cents' does not include them."`
}

// Charge returns the expected cost of the renewals.
func (p ForecastPaused) Charge() fact.Sum {
	return fact.Sum{Cents: p.ChargeCents.Or(0), Lacks: p.Unpriced}
}

// Charge returns the expected cost of the day's renewals.
func (d ForecastDay) Charge() fact.Sum {
	return fact.Sum{Cents: d.ChargeCents.Or(0), Lacks: d.Unpriced}
}

// forecaster computes forecasts.
type forecaster struct {
	*Config

	reads   *reader
	offers  *listPrices
	runners []*scheduleRunner
	counted *dueCounts
}

// Forecast returns the forecast for one schedule, or for all schedules of the account if
// schedule is "". It appends no facts.
func (s *forecaster) Forecast(ctx context.Context, schedule string, days int) (Forecast, error) {
	if days < 1 || days > MaxForecastDays {
		return Forecast{}, ErrForecastDays
	}
	runners, zone := s.runners, time.UTC
	if schedule != "" {
		r, err := runnerOf(s.runners, schedule)
		if err != nil {
			return Forecast{}, err
		}
		runners, zone = []*scheduleRunner{r}, r.calendar.Zone
	}
	o := newOutlook(s.providerNow().In(zone), days)
	for _, r := range runners {
		var err error
		if o.paused, err = s.pausedWithoutEnd(ctx, r.Name); err == nil {
			err = s.foresee(ctx, r, o)
		}
		if err != nil {
			return Forecast{}, fmt.Errorf("forecast schedule %s: %w", r.Name, err)
		}
	}
	var wallet read
	wallet.Now = o.now
	s.reads.readWallet(ctx, &wallet)
	f := o.forecast(wallet.Inputs)
	var err error
	f.Currency, err = s.Ledger.Currency(ctx)
	return f, err
}

// outlook accumulates the days of a forecast.
type outlook struct {
	now   time.Time
	begin []time.Time // beginning of each day, then the end of the last day
	f     Forecast
	turns []turn  // the schedules so far; the last one is the current schedule
	spent []int64 // cost of the current schedule per day
	// paused is the current schedule's name if its pause has no end, otherwise "".
	paused string
	// sweeps has each schedule's charges by slot.
	sweeps []scheduleCharges
}

func newOutlook(now time.Time, days int) *outlook {
	o := &outlook{now: now, f: Forecast{Schedules: []string{}, At: now.UTC(), Timezone: now.Location().String()}}
	for n := range days + 1 {
		o.begin = append(o.begin, fact.Midnight(now.Year(), now.Month(), now.Day()+n, now.Location()))
	}
	for n := range days { // midnight may not exist, so the date may differ from begin's
		o.f.Days = append(o.f.Days, ForecastDay{Day: time.Date(now.Year(), now.Month(), now.Day()+n, 0, 0, 0, 0, time.UTC).Format(time.DateOnly)})
	}
	return o
}

func (o *outlook) end() time.Time { return o.begin[len(o.begin)-1] }

func (o *outlook) day(at time.Time) int {
	n, found := slices.BinarySearchFunc(o.begin[:len(o.f.Days)], at, time.Time.Compare)
	if !found {
		n--
	}
	return max(n, 0)
}

// foresee adds the renewals of one schedule.
func (s *forecaster) foresee(ctx context.Context, r *scheduleRunner, o *outlook) error {
	lists, err := r.Match.ReadLists(s.ReadFile)
	if err != nil {
		return err
	}
	o.turns = append(o.turns, turn{r.Match.Filter(lists), o.end().Add(r.RenewBefore)})
	o.f.Schedules, o.spent = append(o.f.Schedules, r.Name), make([]int64, len(o.f.Days))
	o.sweeps = append(o.sweeps, scheduleCharges{r.calendar, map[int64]time.Time{}, map[int64]fact.Sum{}})
	if r.Keep.AtLeast > 0 {
		err = s.foreseeKept(ctx, r, lists, o)
	} else {
		err = s.foreseeAll(ctx, r, o)
	}
	if err != nil {
		return err
	}
	return s.overBudget(ctx, r, o)
}

// overBudget adds the amount by which each day exceeds the schedule's daily budget. Today's
// budget is reduced by what was already spent.
func (s *forecaster) overBudget(ctx context.Context, r *scheduleRunner, o *outlook) error {
	left := r.DailyBudgetCents
	if left == 0 {
		return nil
	}
	spent, err := s.reads.sweepSpending(ctx, r, fact.StartOfDay(s.Clock(), r.calendar.Zone))
	left = max(left-spent, 0)
	for n, cents := range o.spent {
		o.f.Days[n].OverBudgetCents += max(cents-left, 0)
		left = r.DailyBudgetCents
	}
	return err
}

// pausedWithoutEnd returns the schedule's name if its pause has no end, otherwise "".
func (s *forecaster) pausedWithoutEnd(ctx context.Context, schedule string) (string, error) {
	paused, err := s.Ledger.Sweeps.SchedulePaused(ctx, schedule)
	if errors.Is(err, ledger.ErrNotFound) || err == nil && paused.Until != nil {
		return "", nil
	}
	return schedule, err
}

// foreseeAll adds the renewals of all proxies that the schedule covers.
func (s *forecaster) foreseeAll(ctx context.Context, r *scheduleRunner, o *outlook) error {
	c, err := s.countDue(ctx, r, o)
	if err != nil {
		return err
	}
	costs := make([]plans.Price, len(c.priced))
	for i, p := range c.priced {
		costs[i] = s.offers.orList(ctx, p.cost, r.DurationDays, p.like)
	}
	for _, x := range c.due {
		o.renewals(r.Schedule, time.UnixMicro(x.expires), costs[x.priced], int(x.n))
	}
	return nil
}

// renewals adds all renewals of n proxies with the same expiry, until the end of the
// forecast.
func (o *outlook) renewals(s plans.Schedule, expires time.Time, cost plans.Price, n int) {
	for {
		slot := o.slot(expires.Add(-s.RenewBefore))
		if !slot.Before(o.end()) {
			return
		}
		o.renewal(slot, cost, n)
		expires = expires.Add(time.Duration(s.DurationDays) * fact.Day)
		if expires.Before(o.now) { // expired so long ago that no second renewal is expected
			return
		}
	}
}

// slot returns the current schedule's first slot at or after the later of due and now. It
// returns the end of the forecast if there is none.
func (o *outlook) slot(due time.Time) time.Time {
	slot := o.sweeps[len(o.sweeps)-1].slot(later(due, o.now))
	if slot.IsZero() {
		return o.end()
	}
	return slot
}

// renewal adds n renewals of the same cost at a slot.
func (o *outlook) renewal(at time.Time, cost plans.Price, n int) {
	charge, day := fact.Sum{Cents: int64(n) * cost.Cents.Or(0)}, o.day(at)
	if !cost.Cents.Known() {
		charge.Lacks = n
	}
	d := &o.f.Days[day]
	d.Renewals += n
	d.sum = d.sum.Join(charge)
	if cost.From == plans.PriceList {
		d.ListPriceCents += charge.Cents
		o.f.ListPriceCents += charge.Cents
	}
	o.spent[day] += charge.Cents
	if o.paused != "" {
		o.addPaused(d, charge, n)
	}
	o.sweeps[len(o.sweeps)-1].add(at, charge)
}

// addPaused adds n renewals of the current, paused schedule to a day.
func (o *outlook) addPaused(d *ForecastDay, charge fact.Sum, n int) {
	last := len(d.Paused) - 1 // schedules are processed one after the other
	if last < 0 || d.Paused[last].Schedule != o.paused {
		d.Paused = append(d.Paused, ForecastPaused{Schedule: o.paused})
		last++
	}
	p := &d.Paused[last]
	sum := p.Charge().Join(charge)
	p.Renewals, p.ChargeCents, p.Unpriced = p.Renewals+n, sum.Total(), sum.Lacks
}

// forecast returns the forecast, with the sums of the days and the wallet's balance after
// each day.
func (o *outlook) forecast(wallet plans.Inputs) Forecast {
	f := o.f
	f.WalletCents, f.ReservedCents = wallet.WalletCents, wallet.ReservedCents
	var sum fact.Sum
	for n := range f.Days {
		d := &f.Days[n]
		d.ChargeCents, d.Unpriced = d.sum.Total(), d.sum.Lacks
		sum = sum.Join(d.sum)
		f.ChargeCents, f.Unpriced = sum.Total(), sum.Lacks
		if f.WalletCents == nil {
			continue
		}
		left := *f.WalletCents - f.ReservedCents - sum.Cents
		d.WalletCents, f.MissingCents = &left, fact.Sum{Cents: max(-left, 0), Lacks: sum.Lacks}.Total()
		if left < 0 {
			if f.RunsOutOn == "" {
				f.RunsOutOn, f.FailsFirst = d.Day, o.failsFirst(*f.WalletCents-f.ReservedCents)
			}
		}
	}
	return f
}
