package schedules

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/sleep"
	"perennial/ledger/tables"
	"perennial/schedules/listing"
	"perennial/schedules/plans"
)

const (
	// lateAfter is how long a run may wait for a listing or for the publication of its commands
	// before a sweep.failed fact reports it.
	lateAfter = 30 * time.Second
	// failedFactEvery is the minimum interval between the sweep.failed facts of one continuing
	// failure.
	failedFactEvery = time.Minute
)

type trouble struct {
	mu   sync.Mutex
	now  *fact.SweepFailed // nil while no run fails
	told time.Time         // time of the last published fact

	cleared int // how often the reason was cleared
}

func (x *trouble) get() *fact.SweepFailed {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.now == nil {
		return nil
	}
	now := *x.now
	return &now
}

func (x *trouble) clear() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.now, x.told = nil, time.Time{}
	x.cleared++
}

// generation increases each time the failure is cleared.
func (x *trouble) generation() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.cleared
}

// Stores a failure and reports whether its fact should be appended: once per slot, and at most
// once per failedFactEvery. It does nothing if the failure was cleared after the given
// generation.
func (x *trouble) set(f fact.SweepFailed, now time.Time, generation int) (tell bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.cleared != generation {
		return false
	}
	tell = x.now == nil || !x.now.Slot.Equal(f.Slot) && now.Sub(x.told) >= failedFactEvery
	if !tell && x.now != nil {
		f.Slot = x.now.Slot
	}
	if tell {
		x.told = now
	}
	x.now = &f
	return tell
}

type troubles struct {
	*Config

	lister  *listing.Lister
	runners []*scheduleRunner
}

// Reports that a slot's run failed, and how many proxies it would have renewed.
func (s *troubles) failed(ctx context.Context, r *scheduleRunner, slot time.Time, why error) {
	s.log(r).WithError(why).WithField("slot", slot).Warn("the sweep has not been made; it is tried again")
	s.tellTrouble(ctx, r, &r.trouble, slot, why.Error())
}

func (s *troubles) tellTrouble(ctx context.Context, r *scheduleRunner, x *trouble, slot time.Time, why string) {
	now, generation := s.Clock(), x.generation()
	f := fact.SweepFailed{Schedule: r.Name, Slot: slot, Reason: fact.Bounded(why)}
	if next := r.calendar.Next(now); !next.IsZero() {
		f.NextSlot = &next
	}
	if err := s.countExpiring(ctx, r, &f); err != nil && err.Error() != why { // otherwise the error is already reported
		s.log(r).WithError(err).Warn("the proxies that expire before the next slot could not be counted")
	}
	if !x.set(f, now, generation) {
		return
	}
	if err := s.Ledger.Write(ctx, func(tx *ledger.Tx) error { return tx.Append(f) }); err != nil && ctx.Err() == nil {
		s.log(r).WithError(err).Warn("the failed sweep could not be recorded")
	}
}

// countExpiring counts the due proxies of the run, and those that expire before the next slot.
// If an id list cannot be read, it counts without the lists: a count that is too high is better
// than none.
func (s *troubles) countExpiring(ctx context.Context, r *scheduleRunner, f *fact.SweepFailed) error {
	match := r.Match
	lists, unread := match.ReadLists(s.ReadFile)
	if unread != nil {
		match.ProxyIDs, match.ExceptProxyIDs, lists = nil, nil, plans.Lists{}
	}
	fits, now := match.Filter(lists), s.providerNow()
	err := s.Ledger.Fleet.Expiring(ctx, now.Add(r.RenewBefore), func(p tables.Proxy) error {
		if p.Retired || !p.ExpiresAt.After(now) || p.Unread() || !fits.Fits(p) {
			return nil
		}
		if f.Due++; f.FirstExpiresAt == nil {
			f.FirstExpiresAt = p.ExpiresAt
		}
		if f.NextSlot != nil && p.ExpiresAt.Before(*f.NextSlot) {
			f.Expiring++
		}
		return nil
	})
	return errors.Join(unread, err)
}

// watchSlot reports a run as failed while its commands cannot be published. It also does so while
// the run waits for a listing, if that listing fails, makes no progress, or has not ended by the
// next slot. Without the report an operator would not know, because publication and listing are
// retried for hours.
func (s *troubles) watchSlot(ctx context.Context, r *scheduleRunner, slot time.Time) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	began := s.Clock()
	go func() {
		defer close(done)
		for sleep.For(ctx, lateAfter) == nil {
			if why := s.late(r, slot, began); why != nil {
				s.failed(ctx, r, slot, why)
			}
		}
	}()
	return func() { cancel(); <-done }
}

func (s *troubles) late(r *scheduleRunner, slot, began time.Time) error {
	if why := r.unstored.Load(); why != nil {
		return fmt.Errorf("its commands cannot be published: %w", *why)
	}
	if why := s.lister.Failing(); why != nil {
		return why
	}
	if !r.listing.Load() {
		return nil
	}
	now := s.Clock()
	if page := s.lister.LastPage(); page.After(began) {
		began = page
	}
	if still := now.Sub(began); still >= lateAfter {
		return fmt.Errorf("it waits for a listing of the proxies that has read no page for %s: the account's rate_per_second, or the provider, leaves it no turn", still.Truncate(time.Second))
	}
	if next := r.calendar.Next(slot); !next.IsZero() && !next.After(now) {
		return fmt.Errorf("it waits for a listing of the proxies that takes longer than the time between two slots: %d pages were read", s.lister.PagesRead())
	}
	return nil
}

// NotReady returns one line of text per problem. It returns "" if there is no problem. Problems
// are a list of proxies that cannot be read, proxies missing from the last listing, proxies that expire
// before their turn to be renewed, and due runs that fail.
func (s *Sweeper) NotReady() string {
	failing := s.Failing()
	lines := make([]string, 0, len(failing)+1)
	if loss := s.lister.Loss(); loss != nil {
		lines = append(lines, listing.LossText(*loss))
	}
	if unread := s.lister.Unreadable(); unread != "" {
		lines = append(lines, unread)
	}
	if slow := s.lateRenewals(); slow != "" {
		lines = append(lines, slow)
	}
	for _, f := range failing {
		lines = append(lines, "schedule "+f.Schedule+": "+failedText(f))
	}
	return strings.Join(lines, "\n")
}

// Failing returns why runs fail or their commands were refused, with at most one reason per
// schedule.
func (s *troubles) Failing() []fact.SweepFailed {
	all := []fact.SweepFailed{}
	for _, r := range s.runners {
		if f := r.failing(); f != nil {
			all = append(all, *f)
		}
	}
	return all
}

func (r *scheduleRunner) failing() *fact.SweepFailed {
	if f := r.trouble.get(); f != nil {
		return f
	}
	if f := r.refused.get(); f != nil {
		return f
	}
	return r.unlisted.get()
}

// problem describes the schedule's failure. It returns "" if there is none. The failure's Due is
// the count of the last attempt. An operator may have renewed the proxies since then.
func (r *scheduleRunner) problem() string {
	f := r.failing()
	if f == nil {
		return ""
	}
	text := failedText(*f)
	if r.trouble.get() != nil && f.Due == 0 {
		text += "; nothing that was listed is due any more"
	}
	return text
}

func failedText(f fact.SweepFailed) string {
	text := fmt.Sprintf("the run of %s is not done: %s", f.Slot.UTC().Format(time.RFC3339), f.Reason)
	if f.Due == 0 {
		return text
	}
	text += fmt.Sprintf("; %d proxies are due", f.Due)
	if f.NextSlot != nil {
		text += fmt.Sprintf(", %d of them expire before the next run (%s)", f.Expiring, f.NextSlot.UTC().Format(time.RFC3339))
	}
	return text + ", the first at " + f.FirstExpiresAt.UTC().Format(time.RFC3339)
}

// watchRefused finds the commands that a run published and that the runner's intake refused. The
// slot of such a command is finished, but its proxies are not renewed. watchRefused reads the
// refusals from the ledger, so it also finds them after a restart.
func (s *troubles) watchRefused(ctx context.Context) error {
	for {
		for _, r := range s.runners {
			if err := s.checkRefused(ctx, r); err != nil {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				s.log(r).WithError(err).Warn("refusals of sweep commands could not be read; the read is tried again")
			}
		}
		if err := sleep.For(ctx, remainderEvery); err != nil {
			return err
		}
	}
}

func (s *troubles) checkRefused(ctx context.Context, r *scheduleRunner) error {
	x, err := s.Ledger.Sweeps.RefusedOf(ctx, r.Name, plans.IDPrefix(r.Name))
	if err != nil {
		return fmt.Errorf("read the refused commands of %s: %w", r.Name, err)
	}
	if x == nil {
		r.refused.clear()
		return nil
	}
	if was := r.refused.get(); was != nil && was.Slot.Equal(x.Slot) {
		return nil
	}
	why := fmt.Sprintf("the runner refused %d commands of it (%d proxies) as invalid, and nothing of them is renewed: %s", x.Commands, x.Proxies, x.Reason)
	s.log(r).WithField("slot", x.Slot).Warn(why)
	s.tellTrouble(ctx, r, &r.refused, x.Slot, why)
	return nil
}

// A run waits for a listing that shows its missing proxies. It no longer waits in the lastHours before
// the first of them expires. The runner still reads each proxy before it pays.
const lastHours = 6 * time.Hour

// Lost returns how many live proxies were missing from the last listing. It returns 0 if the
// number is too small to report. nameless is the number of entries in the listing without a
// readable id.
func (s *troubles) Lost() (lost, nameless int) {
	if loss := s.lister.Loss(); loss != nil {
		lost = loss.Lost
	}
	return lost, s.lister.Nameless()
}

func (s *Sweeper) noteUnusable(ctx context.Context, plan *plans.Plan) error {
	unusable, err := s.Ledger.Fleet.UnreadableProxies(ctx, plans.MaxListed)
	if err != nil {
		return fmt.Errorf("read which entries are unusable: %w", err)
	}
	for _, p := range unusable {
		plan.Unusable = append(plan.Unusable, plans.Unusable{ProxyID: p.ProxyID, Reason: p.Unreadable})
	}
	_, count, err := s.Ledger.Fleet.CountUnlisted(ctx)
	plan.UnusableCount = count + s.lister.Nameless()
	return err
}

// awaitListed returns an error while the last listing missed too many proxies and some of them
// are due. If one of these expires within lastHours, it returns nil, and the run proceeds. In
// both cases a sweep.failed fact is published.
func (s *Sweeper) awaitListed(ctx context.Context, r *scheduleRunner, f firing) error {
	loss := s.lister.Loss()
	if loss == nil || f.byHand {
		return nil
	}
	lists, err := r.Match.ReadLists(s.ReadFile)
	if err != nil {
		return err
	}
	fits, now := r.Match.Filter(lists), s.providerNow()
	var due int
	var first *time.Time
	err = s.Ledger.Fleet.Expiring(ctx, now.Add(r.RenewBefore), func(p tables.Proxy) error {
		if p.UnlistedAt == nil || p.Retired || !p.ExpiresAt.After(now) || !fits.Fits(p) {
			return nil
		}
		if due++; first == nil {
			first = p.ExpiresAt
		}
		return nil
	})
	if err != nil || due == 0 {
		return err
	}
	why := fmt.Sprintf("%s; %d of them are due", listing.LossText(*loss), due)
	if first.Sub(now) > lastHours {
		return errors.New(why)
	}
	s.tellTrouble(ctx, r, &r.unlisted, f.slot, why+"; the first expires soon, so what is due is renewed: each is read before it is paid for")
	return nil
}
