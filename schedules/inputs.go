// This file reads the inputs of a run: the table of proxies, the spending and the wallet.

package schedules

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"perennial/ledger/fact"
	"perennial/schedules/plans"
)

// reader reads a run's inputs. It writes nothing.
type reader struct{ *Config }

// reservedFor is how long a published command that was not accepted yet counts as reserved
// money.
const reservedFor = 3 * fact.Day

// read is a run's inputs, with other data that was read at the same time.
type read struct {
	plans.Inputs

	again      []json.RawMessage // the commands of the proxies in OnItsWay
	unknownIDs []string          // ids in the schedule's lists that were never listed
}

// inputs reads a run's inputs. taken has the proxies that the run has already published, and
// spent is their estimated cost. taken is nil for a new run, and for a run that continues
// after a restart.
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
	// In a large account the first two reads take a million rows each, and the last waits for
	// the provider. Only the first two share state: staying.
	staying := newStayingCount(in.Staying)
	reads, readCtx := errgroup.WithContext(ctx)
	reads.Go(func() error { return s.readDue(readCtx, r, &in, staying) })
	reads.Go(func() error { return s.readStaying(readCtx, r, &in, staying) })
	reads.Go(func() error { return s.readSpent(readCtx, r, &in) })
	reads.Go(func() error { return s.readLimit(readCtx, &in) })
	reads.Go(func() error { s.readWallet(readCtx, &in); return nil })
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

func (s *reader) readSpent(ctx context.Context, r *scheduleRunner, in *read) (err error) {
	// The machine's clock also dates the plans. With two different clocks, a budget could be
	// spent twice around midnight.
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

// readLimit reads what is left of the account's daily limit. The runner enforces that
// limit, so an approved plan is not checked against it; operations that do not fit today
// are sent tomorrow.
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

// readWallet reads the provider's wallet, because the ledger may lack a top-up. If the
// wallet cannot be read, it limits nothing: the provider refuses a renewal that the wallet
// cannot pay, without a charge.
func (s *reader) readWallet(ctx context.Context, in *read) {
	if s.Wallet == nil {
		return
	}
	cents, err := s.Wallet(ctx)
	if err == nil {
		in.ReservedCents, err = s.Ledger.Money.Reserved(ctx, in.Now.Add(-reservedFor))
	}
	if err != nil {
		s.Log.WithError(err).WithField("account", s.Account).Warn("the wallet could not be read: the run is planned as if it were full")
		return
	}
	in.WalletCents = &cents
}
