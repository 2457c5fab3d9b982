package schedules

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/sleep"
	"perennial/ledger/tables"
	"perennial/schedules/plans"
)

// MaxForecastDays is the largest number of days of a forecast.
const MaxForecastDays = 366

// ErrForecastDays says that a forecast's number of days is out of range.
var ErrForecastDays = fmt.Errorf("a forecast is of 1 to %d days", MaxForecastDays)

// Forecast is the expected cost of the renewals of the next days. It assumes that the first slot
// after a listed proxy comes due renews the proxy. Each proxy is renewed in this way until the
// forecast ends. The price is the last price paid, or the list price if no renewal was paid yet.
// For a schedule that keeps a number of proxies per group, it counts only the renewals that the
// number needs. It ignores budgets.
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
	// Paused renewals are included in the other fields, although they wait until an operator
	// resumes the schedule.
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
	s.reads.readWallet(ctx, &wallet, walletFresh)
	f := o.forecast(wallet.Inputs)
	var err error
	f.Currency, err = s.Ledger.Currency(ctx)
	return f, err
}

type outlook struct {
	now   time.Time
	begin []time.Time // beginning of each day, then the end of the last day
	f     Forecast
	turns []turn  // the schedules so far; the last one is the current schedule
	spent []int64 // cost of the current schedule per day
	// paused is the current schedule's name if its pause has no end. Otherwise it is "".
	paused string
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

// overBudget adds the amount by which each day exceeds the schedule's daily budget. For today,
// only the rest of the budget counts.
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

func (s *forecaster) pausedWithoutEnd(ctx context.Context, schedule string) (string, error) {
	paused, err := s.Ledger.Sweeps.SchedulePaused(ctx, schedule)
	if errors.Is(err, ledger.ErrNotFound) || err == nil && paused.Until != nil {
		return "", nil
	}
	return schedule, err
}

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

// Adds all renewals of n proxies with the same expiry until the forecast ends.
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

// Returns the current schedule's first slot at or after the later of due and now. It returns the
// end of the forecast if there is none.
func (o *outlook) slot(due time.Time) time.Time {
	slot := o.sweeps[len(o.sweeps)-1].slot(later(due, o.now))
	if slot.IsZero() {
		return o.end()
	}
	return slot
}

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

// turn is one schedule of a forecast. A proxy belongs to the first schedule whose match
// selects it.
type turn struct {
	fits  *plans.Filter
	until time.Time // latest expiry that the forecast reads
}

// Reports whether an earlier schedule renews the proxy. shown is the expiry that the provider
// shows for the proxy.
func (o *outlook) taken(p tables.Proxy, shown time.Time) bool {
	return slices.ContainsFunc(o.turns[:len(o.turns)-1], func(earlier turn) bool { return !shown.After(earlier.until) && earlier.fits.Fits(p) })
}

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
		if claimed[p.ProxyID] || p.Renewed { // its renewal is in progress, or succeeded and is not listed yet
			expires = expires.Add(time.Duration(r.DurationDays) * fact.Day)
		}
		return yield(p, expires)
	})
}

type dueCount struct {
	revision int64     // the ledger's revision before the count
	now      time.Time // time of the outlook
	priced   []priced
	due      []alike
}

// priced is one expected cost. like is a proxy whose kind has this cost.
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

// dueCounts caches counts, because the web UI requests a forecast every few seconds and the
// ledger seldom changes between requests.
type dueCounts struct {
	turn sleep.Lock // held during a count, so that concurrent requests share the count
	of   map[countKey]dueCount
}

func newDueCounts() *dueCounts { return &dueCounts{sleep.NewLock(), map[countKey]dueCount{}} }

// countsMost limits how many entries, of 16 bytes each, all cached counts have together.
const countsMost = 2_000_000

// countDue counts the proxies that the current schedule renews, or returns the cached count if
// the ledger has not changed. The key of a count changes every day, so a count is used for at
// most a day. For a day it stays valid (see tables.DueCount). In that time, no proxy that was
// live at the count can have been expired for as long as a renewal lasts.
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

// Caches a count. It drops counts of other revisions, and further counts if all counts together
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

// countTogether counts groups of proxies. It makes one query for each range of expiries between
// the bounds of earlier schedules. Within a range, an earlier schedule renews either all proxies
// of the same kind and status or none.
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

// ForecastSweep is one run of a forecast.
type ForecastSweep struct {
	Schedule     string     `json:"schedule" doc:"The name of the schedule."`
	Slot         time.Time  `json:"slot" doc:"The scheduled time."`
	ChargeCents  fact.Cents `json:"charge_cents"`
	Unpriced     int        `json:"unpriced" doc:"The number of its renewals of unknown price; 'charge_cents' does not include them."`
	MissingCents int64      `json:"missing_cents" doc:"The part of 'charge_cents' that is missing after all earlier runs are paid."`
}

type foreseenSweep struct {
	ForecastSweep

	sum fact.Sum
}

// scheduleCharges has the charges of one schedule, by the Unix second of their slot.
type scheduleCharges struct {
	calendar plans.Calendar
	slots    map[int64]time.Time // cache: the first slot at or after each minute
	sums     map[int64]fact.Sum
}

// Returns the first slot at or after due, where due is rounded up to a minute. Slots are cached
// by minute, because in a large fleet many proxies come due in the same minute.
func (c scheduleCharges) slot(due time.Time) time.Time {
	minute := (due.Unix() + 59) / 60
	slot, known := c.slots[minute]
	if !known {
		slot = c.calendar.Next(time.Unix(minute*60-1, 0))
		c.slots[minute] = slot
	}
	return slot
}

func (c scheduleCharges) add(slot time.Time, charge fact.Sum) {
	c.sums[slot.Unix()] = c.sums[slot.Unix()].Join(charge)
}

func (c scheduleCharges) sweeps() (all []foreseenSweep) {
	for at, sum := range c.sums {
		all = append(all, foreseenSweep{ForecastSweep{Schedule: c.calendar.Name, Slot: time.Unix(at, 0).UTC()}, sum})
	}
	return all
}

// failsFirst returns the first run that costs more than earlier runs leave in the wallet. It
// returns nil if there is none.
func (o *outlook) failsFirst(left int64) *ForecastSweep {
	var all []foreseenSweep
	for _, c := range o.sweeps {
		all = append(all, c.sweeps()...)
	}
	slices.SortStableFunc(all, func(a, b foreseenSweep) int {
		return cmp.Or(a.Slot.Compare(b.Slot), cmp.Compare(a.Schedule, b.Schedule))
	})
	for _, x := range all {
		if left -= x.sum.Cents; left < 0 {
			x.ChargeCents, x.Unpriced, x.MissingCents = x.sum.Total(), x.sum.Lacks, -left
			return &x.ForecastSweep
		}
	}
	return nil
}

type life struct {
	expires time.Time
	cost    plans.Price
}

// foreseeKept adds the renewals of a schedule that keeps a number of proxies per group. A
// proxy that is not due by the end of the forecast stays without a renewal.
func (s *forecaster) foreseeKept(ctx context.Context, r *scheduleRunner, lists plans.Lists, o *outlook) error {
	kept, prices := map[string][]life{}, plans.NewPrices(plans.HistoryOf(s.Ledger.Queries), r.DurationDays)
	err := s.eachDue(ctx, r, o, func(p tables.PricedProxy, expires time.Time) error {
		cost, err := prices.By(ctx, p.Proxy, p.Paid)
		if err != nil {
			return err
		}
		group := r.Keep.Group(p.Proxy)
		kept[group] = append(kept[group], life{expires, s.offers.orList(ctx, cost, r.DurationDays, p.Proxy)})
		return nil
	})
	if err != nil {
		return err
	}
	in := read{Inputs: plans.Inputs{Schedule: r.Schedule, Lists: lists, Now: o.end()}}
	staying := map[string]int{}
	if err := s.reads.readStaying(ctx, r, &in, newStayingCount(staying)); err != nil {
		return err
	}
	for group, lives := range kept {
		o.keep(r.Schedule, r.Keep.AtLeast-staying[group], lives)
	}
	return nil
}

// Adds the renewals that keep atLeast proxies of a group alive. It decides like a run of the
// schedule.
func (o *outlook) keep(s plans.Schedule, atLeast int, lives []life) {
	stay, due := lifeHeap(lives), []life{} // stay: not due yet
	heap.Init(&stay)
	lasts := time.Duration(s.DurationDays) * fact.Day
	for len(stay) > 0 {
		now := o.slot(stay[0].expires.Add(-s.RenewBefore))
		if !now.Before(o.end()) {
			return
		}
		for first := true; first || len(stay) > 0 && !stay[0].expires.Add(-s.RenewBefore).After(now); first = false {
			if x, ok := heap.Pop(&stay).(life); ok { // the first proxy may come due within the second of the slot
				due = append(due, x)
			}
		}
		due = bestFirst(due, now)
		renewed := min(max(atLeast-len(stay), 0), len(due))
		for _, x := range due[:renewed] {
			o.renewal(now, x.cost, 1)
			heap.Push(&stay, life{later(x.expires, now).Add(lasts), x.cost})
		}
		due = due[renewed:]
	}
}

// bestFirst returns the proxies in the order in which a plan renews them: live proxies by
// nearest expiry, then expired proxies by latest expiry. Proxies that expired more than a
// day ago are dropped.
func bestFirst(due []life, now time.Time) []life {
	due = slices.DeleteFunc(due, func(x life) bool { return x.expires.Before(now.Add(-fact.Day)) })
	slices.SortStableFunc(due, func(a, b life) int {
		if lives := a.expires.After(now); lives != b.expires.After(now) {
			if lives {
				return -1
			}
			return 1
		} else if !lives {
			return b.expires.Compare(a.expires)
		}
		return a.expires.Compare(b.expires)
	})
	return due
}

type lifeHeap []life

func (h lifeHeap) Len() int           { return len(h) }
func (h lifeHeap) Less(i, j int) bool { return h[i].expires.Before(h[j].expires) }
func (h lifeHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

func (h *lifeHeap) Push(x any) {
	if one, ok := x.(life); ok {
		*h = append(*h, one)
	}
}

func (h *lifeHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
