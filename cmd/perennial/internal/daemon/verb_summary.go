package daemon

import (
	"context"
	"time"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/schedules"
)

const (
	runwayDays   = 30
	runwayWithin = 2 * time.Second // a forecast that takes longer, as for a large fleet, is omitted
)

// Summarize returns the summary of an account from its ledger alone.
func Summarize(ctx context.Context, l *ledger.Ledger, account string, now time.Time) (verbs.Summary, error) {
	v, err := summarizeNeeds(ctx, l, account, now)
	if err != nil {
		return v, err
	}
	if v.Runway, err = spendingRunway(ctx, l, v.Books.WalletCents, now); err != nil {
		return v, err
	}
	err = fleetAtAGlance(ctx, l, &v, now)
	return v, err
}

// summarizeNeeds is like Summarize, but omits the values that take long to compute for a
// large fleet.
func summarizeNeeds(ctx context.Context, l *ledger.Ledger, account string, now time.Time) (v verbs.Summary, err error) {
	v.Account = account
	b, err := l.Money.Balance(ctx, account)
	if err != nil {
		return v, err
	}
	v.Books = verbs.Books{Currency: b.Currency, WalletCents: b.WalletCents, SuspenseCents: b.SuspenseCents}
	if v.Paused, err = l.Operations.Pauses(ctx); err != nil {
		return v, err
	}
	if v.Paused == nil {
		v.Paused = []tables.Pause{}
	}
	for _, p := range v.Paused {
		if p.Until == nil {
			v.Needs.Paused++
		}
	}
	if v.Needs.Reviews, err = l.Operations.CountReviews(ctx); err != nil {
		return v, err
	}
	if v.Needs.Refused, err = l.Operations.CountRefused(ctx, now.Add(-verbs.RefusedFor)); err != nil {
		return v, err
	}
	counts, err := l.Operations.StateCounts(ctx)
	if err != nil {
		return v, err
	}
	v.Needs.Held = counts[fact.StateHeld]
	at, differences, err := l.Money.LastComparison(ctx)
	if err != nil {
		return v, err
	}
	if !at.IsZero() {
		at, v.Needs.Findings = at.UTC(), &differences
		v.Books.ComparedAt, v.Books.Agree = &at, new(differences == 0)
		if v.Books.ChangedSince, err = bookedAfter(ctx, l, at); err != nil {
			return v, err
		}
	}
	v.Needs.Total = v.Needs.Sum()
	return v, nil
}

func fleetAtAGlance(ctx context.Context, l *ledger.Ledger, v *verbs.Summary, now time.Time) error {
	listing, err := l.Fleet.Listing(ctx)
	if err != nil || listing.Finished.IsZero() {
		return err
	}
	end := time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
	n, err := l.Metrics.CountExpiring(ctx, []time.Time{now, now.Add(24 * time.Hour), now.Add(72 * time.Hour), now.Add(spentOver), end})
	if err != nil {
		return err
	}
	_, unreadable, err := l.Fleet.CountUnlisted(ctx)
	if err != nil {
		return err
	}
	v.Expiring = &verbs.Expiring{Unreadable: int64(unreadable), Expired: n[0], Day: n[1] - n[0], ThreeDays: n[2] - n[0], Week: n[3] - n[0], All: n[4] - n[0], ListedAt: listing.Finished.UTC()}
	return nil
}

// spendingRunway returns how long the wallet lasts if spending continues at the recent rate.
// It returns nil if nothing was spent recently, or if the ledger is younger than a day.
func spendingRunway(ctx context.Context, l *ledger.Ledger, walletCents int64, now time.Time) (*verbs.Runway, error) {
	spent, err := l.Metrics.NetSpentSince(ctx, now.Add(-spentOver))
	if err != nil || spent <= 0 {
		return nil, err
	}
	opened, err := l.Money.OpenedAt(ctx)
	if err != nil {
		return nil, err // never ErrNotFound, because a ledger with spent money has a first row
	}
	over := min(spentOver, now.Sub(opened))
	if over < 24*time.Hour {
		return nil, nil //nolint:nilnil // less than a day of spending does not predict the next day
	}
	days := over.Hours() / 24 * float64(max(walletCents, 0)) / float64(spent)
	r := &verbs.Runway{Days: int(days), Basis: "spending"}
	if days < 1000 {
		r.RunsOutOn = now.UTC().AddDate(0, 0, r.Days).Format(time.DateOnly)
	}
	return r, nil
}

func (a answers) summary(ctx context.Context, q verbs.SummaryRequest) (verbs.Summary, error) {
	summarize := Summarize
	if q.NeedsOnly {
		summarize = summarizeNeeds
	}
	v, err := summarize(ctx, a.Ledger(), a.Name, time.Now())
	if err != nil {
		return v, err
	}
	v.Role, v.NotReady = a.role(), a.notReady()
	v.Ready = v.NotReady == ""
	v.ConfigChanged = a.host.configChanged(a.Name)
	x := a.snapshot()
	if letters, err := a.letters().Count(ctx); err == nil {
		v.Needs.DeadLetters = &letters
	}
	if x.runner != nil {
		if err := addComparison(ctx, a.Ledger(), x.runner.LastReconciliation(), &v); err != nil {
			return v, err
		}
	}
	if x.sweeper != nil {
		err = addSchedules(ctx, x.sweeper, &v)
	}
	v.Needs.Total = v.Needs.Sum()
	return v, err
}

// addComparison adds the last reconciliation since this process started, if there was one.
func addComparison(ctx context.Context, l *ledger.Ledger, last jobs.LastReconciliation, v *verbs.Summary) (err error) {
	if last.At.IsZero() {
		return nil
	}
	at, findings := last.At.UTC(), int64(last.Findings)
	v.Books.ComparedAt, v.Books.Agree = &at, last.OK
	if last.OK != nil || findings > 0 {
		v.Needs.Findings = &findings
	} else if n := v.Needs.Findings; n != nil && *n > 0 {
		v.Books.Agree = new(false) // the reconciliation did not refute the earlier findings
	}
	v.Books.ChangedSince, err = bookedAfter(ctx, l, at)
	return err
}

func bookedAfter(ctx context.Context, l *ledger.Ledger, at time.Time) (bool, error) {
	last, _, err := l.Money.PostingsBefore(ctx, "", 0, 1)
	if err != nil || len(last) > 0 && last[0].Time.After(at) {
		return err == nil, err
	}
	return l.Report().AnsweredAfter(ctx, at)
}

// addSchedules adds what the schedules need from an operator. If the summary includes
// expiries, it also replaces the runway with the forecast's, unless the forecast takes
// longer than runwayWithin.
func addSchedules(ctx context.Context, s *schedules.Sweeper, v *verbs.Summary) error {
	all, err := s.List(ctx)
	if err != nil {
		return err
	}
	if n, known := s.Uncovered(ctx); known {
		v.Needs.Uncovered = &n
	}
	if _, nameless := s.Lost(); v.Expiring != nil {
		v.Expiring.Unreadable += int64(nameless)
	}
	v.Schedules = new(int64)
	for _, one := range all {
		if one.Removed == "" {
			*v.Schedules++
		}
	}
	v.Needs = v.Needs.WithSchedules(all)
	late, first, err := s.Late(ctx, all)
	if err != nil {
		return err
	}
	v.Needs.Late, v.Needs.LateFirst = &late, first
	if len(all) == 0 || v.Expiring == nil {
		return nil
	}
	soon, cancel := context.WithTimeout(ctx, runwayWithin)
	defer cancel()
	f, err := s.Forecast(soon, "", runwayDays)
	if err == nil && f.WalletCents != nil {
		v.Runway = forecastRunway(f)
	}
	return nil
}

// forecastRunway returns the runway according to a forecast. It returns nil if renewals of
// unknown price could change the result.
func forecastRunway(f schedules.Forecast) *verbs.Runway {
	r := &verbs.Runway{Days: len(f.Days), More: true, RunsOutOn: f.RunsOutOn, Basis: "forecast", Unpriced: f.Unpriced}
	for n, d := range f.Days {
		if d.Day == f.RunsOutOn {
			r.Days, r.More = n, false
		}
	}
	if r.More && f.Unpriced > 0 {
		return nil
	}
	return r
}
