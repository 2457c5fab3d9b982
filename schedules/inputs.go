package schedules

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"perennial/jobs/command"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/schedules/listing"
	"perennial/schedules/plans"
	"perennial/upstream"
)

type reader struct {
	*Config

	wallet atomic.Pointer[walletRead]
}

// walletRead is the last wallet balance that was read. Each status asks for a forecast, and the wallet
// costs a request.
type walletRead struct {
	at    time.Time
	cents int64
}

// walletFresh is how old a balance may be in a forecast. A run reads the wallet itself.
const walletFresh = 10 * time.Second

// balance returns a balance that is younger than fresh, or reads the wallet.
func (s *reader) balance(ctx context.Context, fresh time.Duration) (int64, error) {
	if last := s.wallet.Load(); last != nil && s.Clock().Sub(last.at) < fresh && !s.Clock().Before(last.at) {
		return last.cents, nil
	}
	cents, err := s.Wallet(ctx)
	if err == nil {
		s.wallet.Store(&walletRead{s.Clock(), cents})
	}
	return cents, err
}

// reservedFor is how long the money of a command that was not accepted yet is reserved.
const reservedFor = 3 * fact.Day

type read struct {
	plans.Inputs

	again      []json.RawMessage // the commands of the proxies in OnItsWay
	unknownIDs []string          // ids in the schedule's lists that were never listed
}

// Reads a run's inputs. taken has the proxies that the run has already published, and spent is
// their estimated cost in cents. taken is nil for a new run, and for a run that continues after a
// restart.
func (s *reader) inputs(ctx context.Context, r *scheduleRunner, taken map[string]bool, spent int64) (in read, err error) {
	in.Inputs = plans.Inputs{Schedule: r.Schedule, Now: s.providerNow(), Taken: taken, SpentCents: spent}
	if in.Lists, err = r.Match.ReadLists(s.ReadFile); err != nil {
		return in, err
	}
	if in.Claimed, err = s.Ledger.Operations.Claimed(ctx); err != nil {
		return in, fmt.Errorf("read the claims: %w", err)
	}
	if in.InReview, err = s.Ledger.Operations.ClaimedInReview(ctx); err != nil {
		return in, fmt.Errorf("read what is in review: %w", err)
	}
	if in.UnderWay, err = s.Ledger.Operations.ClaimedKinds(ctx); err != nil {
		return in, fmt.Errorf("read the kinds that are being renewed: %w", err)
	}
	if taken == nil { // a later part has these proxies in taken
		if err := s.readOnItsWay(ctx, r, &in); err != nil {
			return in, fmt.Errorf("read what is on its way: %w", err)
		}
	}
	in.Staying = map[string]int{}
	// In a large account, the first two reads take a million rows each, and the last waits for
	// the provider. Only the first two share state: staying.
	staying := newStayingCount(in.Staying)
	reads, readCtx := errgroup.WithContext(ctx)
	reads.Go(func() error { return s.readDue(readCtx, r, &in, staying) })
	reads.Go(func() error { return s.readStaying(readCtx, r, &in, staying) })
	reads.Go(func() error { return s.readSpent(readCtx, r, &in) })
	reads.Go(func() error { return s.readLimit(readCtx, &in) })
	reads.Go(func() error { s.readWallet(readCtx, &in, 0); return nil })
	if err := reads.Wait(); err != nil {
		return in, fmt.Errorf("read what is due and what it may cost: %w", err)
	}
	if taken != nil {
		return in, nil
	}
	if in.unknownIDs, err = s.Ledger.Fleet.NeverListed(ctx, r.Match.Named(in.Lists), plans.MaxListed); err != nil {
		return in, fmt.Errorf("read which proxies are known: %w", err)
	}
	return in, nil
}

func (c *Config) readProxy(ctx context.Context, id string) error {
	if err := c.Pass(ctx); err != nil {
		return err
	}
	asked := c.Clock()
	p, err := c.Proxy(ctx, id)
	if err == nil {
		err = c.Ledger.Write(ctx, func(tx *ledger.Tx) error { return tx.Observe(0, listing.Seen(p, asked)) })
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", id, err)
	}
	return nil
}

const readByHand = 10

// readUnread reads due proxies that have not been read since a renewal ended without renewing
// them, nearest expiry first. An operator who requests a plan or run would otherwise have to
// wait for the next listing.
func (s *reader) readUnread(ctx context.Context, r *scheduleRunner) error {
	if s.Proxy == nil {
		return nil
	}
	lists, err := r.Match.ReadLists(s.ReadFile)
	if err != nil {
		return err
	}
	var ids []string
	fits := r.Match.Filter(lists)
	err = s.Ledger.Fleet.Expiring(ctx, s.providerNow().Add(r.RenewBefore), func(p tables.Proxy) error {
		if p.Unread() && p.ExpectedExpiresAt == nil && !p.Retired && len(ids) < readByHand && fits.Fits(p) {
			ids = append(ids, p.ProxyID)
		}
		return nil
	})
	for _, id := range ids {
		if err := s.readProxy(ctx, id); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			s.log(r).WithError(err).WithField("proxy_id", id).Warn("a proxy could not be read before a requested plan; the next listing reads it")
		}
	}
	return err
}

func (s *reader) readSpent(ctx context.Context, r *scheduleRunner, in *read) (err error) {
	// The budgets use the machine's clock, because it also dates the plans. With two clocks, a
	// budget could be spent twice around midnight.
	now := s.Clock()
	today, month := fact.StartOfDay(now, r.calendar.Zone), fact.StartOfMonth(now, r.calendar.Zone)
	if in.SpentTodayCents, err = s.sweepSpending(ctx, r, today); err != nil {
		return err
	}
	in.SpentMonthCents, err = s.sweepSpending(ctx, r, month)
	return err
}

// sweepSpending returns the cost of a schedule's runs since an instant, including the
// possible cost of unknown outcomes.
func (s *reader) sweepSpending(ctx context.Context, r *scheduleRunner, since time.Time) (int64, error) {
	spent, err := s.Ledger.Money.SweepSpending(ctx, r.Name, since)
	if err != nil {
		return 0, err
	}
	exposed, err := s.Ledger.Money.SweepExposed(ctx, r.Name, since)
	return spent + exposed, err
}

// readLimit reads what is left of the account's daily limit. Approvals do not check this limit,
// because the runner enforces it. If an operation does not fit today, the runner sends it
// tomorrow.
func (s *reader) readLimit(ctx context.Context, in *read) (err error) {
	today := fact.StartOfDay(s.Clock(), s.DailyLimitLocation)
	if _, in.UnpricedOpen, err = s.Ledger.Money.Unpriced(ctx, "", today); err != nil || s.DailyLimitCents == 0 {
		return err
	}
	spent, err := s.Ledger.Money.Committed(ctx, today, "")
	if err != nil {
		return err
	}
	exposed, err := s.Ledger.Money.Exposed(ctx, today, "")
	if err != nil {
		return err
	}
	untaken, err := s.Ledger.Money.Untaken(ctx, in.Now.Add(-reservedFor))
	in.LimitCents, in.LimitSpentCents = s.DailyLimitCents, spent+exposed+untaken
	return err
}

// readWallet reads the provider's wallet, because the ledger may lack a top-up. If the wallet
// cannot be read, it limits nothing. The provider refuses a renewal that the wallet cannot pay,
// and charges nothing.
func (s *reader) readWallet(ctx context.Context, in *read, fresh time.Duration) {
	if s.Wallet == nil {
		return
	}
	cents, err := s.balance(ctx, fresh)
	if err == nil {
		in.ReservedCents, err = s.Ledger.Money.Reserved(ctx, in.Now.Add(-reservedFor))
	}
	if err != nil {
		s.Log.WithError(err).WithField("account", s.Account).Warn("the wallet could not be read: plans and forecasts assume that it is full")
		return
	}
	in.WalletCents = &cents
}

type stayingCount struct {
	mu     sync.Mutex
	groups map[string]int
}

func newStayingCount(groups map[string]int) *stayingCount { return &stayingCount{groups: groups} }

func (c *stayingCount) add(group string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.groups[group] += n
}

// gathering collects due proxies up to a limit. Proxies that BarredBy excludes do not count
// against the limit, because they could fill it: a provider may list retired and expired proxies
// forever, and a continued run first finds the proxies that it has already renewed.
type gathering struct {
	in              *read
	filter          *plans.Filter
	staying         *stayingCount
	living, expired []tables.Proxy
	aside           []tables.Proxy      // proxies that cannot be renewed now, up to the number that a plan lists
	most            int                 // limit on live and expired proxies together
	first           []tables.Proxy      // one proxy of each kind that is being renewed, because its charge may show the kind's price
	kinds           map[plans.Kind]bool // kinds in first
}

// Proxies must be added in order of expiry.
func (g *gathering) add(p tables.Proxy) {
	switch why := g.in.BarredBy(g.filter, p); {
	case why != "":
		g.setAside(p, why)
	case p.ExpiresAt.After(g.in.Now):
		if len(g.living) < g.most {
			g.living = append(g.living, p)
		} else {
			g.in.Beyond++
		}
	default:
		g.expired = append(g.expired, p)
		if len(g.expired) == 2*g.most { // the most recently expired proxies are the most likely to be renewable
			g.in.Beyond += g.most
			g.expired = append(g.expired[:0], g.expired[g.most:]...)
		}
	}
}

// setAside adds a proxy that cannot be renewed now. It keeps the first proxy of each kind whose
// renewal is in progress, and others while the plan has room to list them. The rest are only
// counted.
func (g *gathering) setAside(p tables.Proxy, why string) {
	if tells := why == plans.ReasonTaken || why == plans.ReasonOnItsWay; tells && !g.kinds[plans.KindOf(p)] {
		g.kinds[plans.KindOf(p)] = true
		g.first = append(g.first, p)
		return
	}
	if len(g.aside) < plans.MaxListed {
		g.aside = append(g.aside, p)
		return
	}
	g.in.Barred[why]++
	if g.in.Schedule.Keep.AtLeast > 0 && g.in.BeingRenewed(p) {
		g.staying.add(g.in.Schedule.Keep.Group(p), 1)
	}
}

// gathered returns the proxies to plan, in this order: proxies of kinds that are being
// renewed, live proxies by nearest expiry, expired proxies by latest expiry, proxies that
// cannot be renewed now.
func (g *gathering) gathered() []tables.Proxy {
	slices.Reverse(g.expired)
	room := g.most - len(g.living)
	if over := len(g.expired) - room; over > 0 {
		g.in.Beyond += over
		g.expired = g.expired[:room]
	}
	return slices.Concat(g.first, g.living, g.expired, g.aside)
}

func (s *reader) readDue(ctx context.Context, r *scheduleRunner, in *read, staying *stayingCount) error {
	in.Barred = map[string]int{}
	g := &gathering{in: in, filter: r.Match.Filter(in.Lists), staying: staying, most: s.considered, kinds: map[plans.Kind]bool{}}
	err := s.Ledger.Fleet.Expiring(ctx, in.Now.Add(r.RenewBefore), func(p tables.Proxy) error {
		if g.filter.About(p) || g.filter.Undecided(p) {
			g.add(p)
		}
		return nil
	})
	in.Proxies = g.gathered()
	return err
}

func (s *reader) readStaying(ctx context.Context, r *scheduleRunner, in *read, staying *stayingCount) error {
	if r.Keep.AtLeast == 0 {
		return nil
	}
	fits, until := r.Match.Filter(in.Lists), in.Now.Add(r.RenewBefore)
	count := func(p tables.Proxy, n int) {
		if fits.Fits(p) {
			staying.add(r.Keep.Group(p), n)
		}
	}
	if !r.Match.Single() {
		return s.Ledger.Fleet.CountStaying(ctx, until, slices.Concat(r.Keep.Per, r.Match.Fields()), func(like tables.Proxy, n int) error { count(like, n); return nil })
	}
	return s.Ledger.Fleet.Staying(ctx, until, func(p tables.Proxy) error { count(p, 1); return nil })
}

// readOnItsWay finds commands that earlier runs of the schedule published but that the runner
// has not accepted yet. Their proxies are not planned again, because the money is reserved and
// any necessary approval was given. The commands are published again unchanged, in case the
// stream lost them.
func (s *reader) readOnItsWay(ctx context.Context, r *scheduleRunner, in *read) error {
	slots, planned, err := s.Ledger.Sweeps.NotTakenIn(ctx, r.Name, in.Now.Add(-reservedFor))
	if err != nil || len(slots) == 0 {
		return err
	}
	fits, until := r.Match.Filter(in.Lists), in.Now.Add(r.RenewBefore)
	due := func(id string, expected time.Time) (bool, error) {
		p, err := s.Ledger.Sweeps.Listed(ctx, id)
		if errors.Is(err, ledger.ErrNotFound) {
			return false, nil
		}
		return err == nil && p.ExpiresAt != nil && fact.SameExpiry(*p.ExpiresAt, expected) && !p.ExpiresAt.After(until) && fits.Fits(p) && !p.Retired, err
	}
	in.OnItsWay = map[string]bool{}
	for _, slot := range slots {
		plan, err := s.Ledger.Sweeps.Plan(ctx, slot)
		if _, gone := errors.AsType[*ledger.ArchivedError](err); gone { // the plan was approved long after it was made
			continue
		}
		if err != nil {
			return fmt.Errorf("read the plan of %s: %w", slot.At.Format(time.RFC3339), err)
		}
		for _, raw := range plan.Commands {
			if err := s.addOnItsWay(ctx, in, raw, planned, due); err != nil {
				return fmt.Errorf("read a command of the plan of %s: %w", slot.At.Format(time.RFC3339), err)
			}
		}
	}
	return nil
}

// addOnItsWay adds a command if all its proxies are still due as planned. Otherwise its
// proxies are planned again, and the command that is accepted first reserves them.
func (s *reader) addOnItsWay(ctx context.Context, in *read, raw json.RawMessage, planned map[string]time.Time, due func(id string, expected time.Time) (bool, error)) error {
	var c command.RenewalCommand
	if err := json.Unmarshal(raw, &c); err != nil {
		return err
	}
	since, open := planned[c.ID]
	if !open || c.DurationDays != in.Schedule.DurationDays {
		return nil
	}
	for _, id := range c.ProxyIDs {
		if still, err := due(id, c.ExpectExpiresAt[id]); err != nil || !still {
			return err
		}
		tried, err := s.Ledger.Operations.SettledSince(ctx, id, since)
		if err != nil || tried { // another command was tried, so the next one is a new attempt
			return err
		}
	}
	in.again = append(in.again, raw)
	for _, id := range c.ProxyIDs {
		in.OnItsWay[id] = true
	}
	return nil
}

const (
	// listPriceFresh is the maximum age of offers that give list prices.
	listPriceFresh   = 10 * time.Minute
	listPriceTimeout = 5 * time.Second
	// listPricesTimeout bounds the requests for one preview. Prices that were not read by then are
	// unknown in it.
	listPricesTimeout = 15 * time.Second
	maxListedKinds    = 1000
)

type listPrices struct {
	*Config

	mu sync.Mutex
	of map[upstream.OfferFilter]listedOffers
}

type listedOffers struct {
	offers []upstream.Offer
	at     time.Time
}

// listPrice returns an unknown price if the provider's offers cannot be read.
func (s *listPrices) listPrice(ctx context.Context, p tables.Proxy, days int64) fact.Cents {
	if s.Offers == nil {
		return fact.Cents{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	filter := plans.ListFilter(p, days)
	known, asked := s.of[filter]
	if !asked || s.Clock().Sub(known.at) >= listPriceFresh {
		limited, cancel := context.WithTimeout(ctx, listPriceTimeout)
		defer cancel()
		offers, err := s.Offers(limited, filter)
		if err != nil && ctx.Err() != nil {
			return fact.Cents{}
		}
		if s.of == nil || len(s.of) >= maxListedKinds {
			s.of = map[upstream.OfferFilter]listedOffers{}
		}
		known = listedOffers{offers, s.Clock()} // no offers if they could not be read
		s.of[filter] = known
	}
	return plans.ListPrice(known.offers, p, days)
}

func (s *listPrices) orList(ctx context.Context, cost plans.Price, days int64, p tables.Proxy) plans.Price {
	if cost.Cents.Known() {
		return cost
	}
	if price := s.listPrice(ctx, p, days); price.Known() {
		return plans.Price{Cents: price, From: plans.PriceList}
	}
	return cost
}

func (s *listPrices) addListPrices(ctx context.Context, r *scheduleRunner, plan *plans.Plan) error {
	reading, cancel := context.WithTimeout(ctx, listPricesTimeout)
	defer cancel()
	price := func(id string) (fact.Cents, error) {
		p, err := s.Ledger.Fleet.Proxy(ctx, id)
		if err != nil {
			return fact.Cents{}, err
		}
		return s.listPrice(reading, p, r.DurationDays), nil
	}
	for i := range plan.Included {
		one := &plan.Included[i]
		if one.EstimateCents.Known() || one.PriceFrom == plans.PriceList {
			continue
		}
		cents, err := price(one.ProxyID)
		if err != nil {
			return err
		}
		one.SetList(cents)
	}
	for i := range plan.LeftOut {
		if one := &plan.LeftOut[i]; one.AwaitsPrice() {
			cents, err := price(one.ProxyID)
			if err != nil {
				return err
			}
			one.ListPriceCents = cents.Or(0)
		}
	}
	before := plan.ListPriceCents
	plan.ListPriceCents, plan.Listed = plans.SumListed(plan.Included)
	if plan.WalletAfterCents != nil {
		*plan.WalletAfterCents -= plan.ListPriceCents - before
	}
	return nil
}
