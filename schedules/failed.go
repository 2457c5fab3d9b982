// Sweeps that cannot be made: when that is published, and what status shows of it.

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
	"perennial/schedules/listing"
	"perennial/schedules/plans"
)

const (
	// lateAfter is how long a sweep may wait for a listing that is failing before
	// a sweep.failed is published.
	lateAfter = 30 * time.Second
	// toldEvery is the least time between two sweep.failed facts of one schedule.
	toldEvery = time.Minute
)

// trouble is why the sweep that is due cannot be made.
type trouble struct {
	mu   sync.Mutex
	now  *fact.SweepFailed // nil: there is none
	told time.Time         // the last fact
}

// get is a copy; nil when the sweeps of the schedule can be made.
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
}

// set notes a failure and reports whether to append its fact: once for each slot, and
// not more often than every minute.
func (x *trouble) set(f fact.SweepFailed, now time.Time) (tell bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	tell = x.now == nil || !x.now.Slot.Equal(f.Slot) && now.Sub(x.told) >= toldEvery
	if !tell && x.now != nil {
		f.Slot = x.now.Slot
	}
	if tell {
		x.told = now
	}
	x.now = &f
	return tell
}

// troubles tells of sweeps that are due and cannot be made.
type troubles struct {
	*Config

	lister  *listing.Lister
	runners []*scheduleRunner
}

// failed appends that a slot's sweep cannot be made, with what it would have renewed by
// the table of proxies. The sweep is tried again.
func (s *troubles) failed(ctx context.Context, r *scheduleRunner, slot time.Time, why error) {
	s.log(r).WithError(why).WithField("slot", slot).Warn("the sweep has not been made; it is tried again")
	s.tellTrouble(ctx, r, &r.trouble, slot, why.Error())
}

// tellTrouble notes a slot's trouble, and appends its fact when set says so.
func (s *troubles) tellTrouble(ctx context.Context, r *scheduleRunner, x *trouble, slot time.Time, why string) {
	now := s.Clock()
	f := fact.SweepFailed{Schedule: r.Name, Slot: slot, Reason: fact.Bounded(why)}
	if next := r.calendar.Next(now); !next.IsZero() {
		f.NextSlot = &next
	}
	if err := s.countExpiring(ctx, r, &f); err != nil && err.Error() != why { // that one is said already
		s.log(r).WithError(err).Warn("the proxies that expire before the next slot could not be counted")
	}
	if !x.set(f, now) {
		return
	}
	if err := s.Ledger.Write(ctx, func(tx *ledger.Tx) error { return tx.Append(f) }); err != nil && ctx.Err() == nil {
		s.log(r).WithError(err).Warn("the failed sweep could not be recorded")
	}
}

// countExpiring counts what the sweep is about: all that is due, and of it what
// expires before the next slot. Where a list of proxies cannot be read, those that the other
// fields of the match fit are counted: more than the sweep is about, and never none for that
// it is not known.
func (s *troubles) countExpiring(ctx context.Context, r *scheduleRunner, f *fact.SweepFailed) error {
	match := r.Match
	lists, unread := match.ReadLists(s.ReadFile)
	if unread != nil {
		match.ProxyIDs, match.ExceptProxyIDs, lists = nil, nil, plans.Lists{}
	}
	fits, now := match.Filter(lists), s.providerNow()
	err := s.Ledger.Expiring(ctx, now.Add(r.RenewBefore), func(p ledger.Proxy) error {
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

// watchSlot reports a sweep as failed whose commands cannot be published, or that waits for a
// listing that fails, stops or takes longer than the time to the next slot: both are
// tried again for hours.
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

// late is what is wrong with what a slot waits for, since it began to; nil where that continues,
// or the slot waits for nothing.
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

// NotReady is what the last listing lost, what expires before its turn, and why a sweep that is due cannot be made, a
// line for each schedule; "" when nothing is wrong.
func (s *Sweeper) NotReady() string {
	failing := s.Failing()
	lines := make([]string, 0, len(failing)+1)
	if loss := s.lister.Loss(); loss != nil {
		lines = append(lines, listing.LossText(*loss))
	}
	if slow := s.tooSlow(); slow != "" {
		lines = append(lines, slow)
	}
	for _, f := range failing {
		lines = append(lines, "schedule "+f.Schedule+": "+failedText(f))
	}
	return strings.Join(lines, "\n")
}

// Failing lists what keeps sweeps from being made, and what refused their
// commands, at most one for each schedule.
func (s *Sweeper) Failing() []fact.SweepFailed {
	all := []fact.SweepFailed{}
	for _, r := range s.runners {
		if f := r.failing(); f != nil {
			all = append(all, *f)
		}
	}
	return all
}

// failing is why the schedule renews nothing now; nil when it does.
func (r *scheduleRunner) failing() *fact.SweepFailed {
	if f := r.trouble.get(); f != nil {
		return f
	}
	if f := r.refused.get(); f != nil {
		return f
	}
	return r.unlisted.get()
}

// problem is failing in words. Each attempt to make the sweep counts again what is due, at
// least once a minute: a person may have renewed all of it meanwhile.
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
