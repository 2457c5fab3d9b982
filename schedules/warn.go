package schedules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/sleep"
	"perennial/ledger/tables"
)

const (
	warnEvery = time.Minute
	warnBatch = 500
)

// defaultWarnBefore is the default of Config.WarnBefore. A working schedule renews a proxy
// earlier than that.
var defaultWarnBefore = []time.Duration{24 * time.Hour, time.Hour}

// CheckWarnBefore returns an error for the first invalid threshold.
func CheckWarnBefore(thresholds []time.Duration) error {
	for _, d := range thresholds {
		if d < time.Minute || d%time.Second != 0 {
			return fmt.Errorf("warn_before holds %s: use whole seconds, at least a minute", d)
		}
	}
	return nil
}

type expiries struct {
	*Config

	tried <-chan struct{} // closed when the first listing of this process has ended or failed
}

// watchExpiries publishes an event for each proxy that expires soon or has expired. It reads the
// ledger's table, so it works even while the provider is down. It starts after the first listing
// has ended or failed, because the table may be old until then.
func (s *expiries) watchExpiries(ctx context.Context) error {
	select {
	case <-s.tried:
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		if err := s.Warn(ctx); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			s.Log.WithError(err).WithField("account", s.Account).Warn("expiries could not be read; the read is tried again")
		}
		if err := sleep.Until(ctx, s.Clock, s.Clock().Add(warnEvery)); err != nil {
			return err
		}
	}
}

// Warn appends proxy.expiring and proxy.expired, each once per expiry and threshold. If a proxy
// is within several thresholds, only the smallest is published. Expiries from before the ledger
// was opened are not published.
func (s *expiries) Warn(ctx context.Context) error {
	opened, err := s.Ledger.Money.OpenedAt(ctx)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	now := s.providerNow()
	err = s.appendEach(ctx, func() ([]tables.Proxy, error) { return s.Ledger.Fleet.UnreportedExpired(ctx, opened, now, warnBatch) },
		func(p tables.Proxy) fact.Fact {
			return fact.ProxyExpired{ProxyID: p.ProxyID, ExpiresAt: *p.ExpiresAt}
		})
	from := now
	for _, threshold := range slices.Sorted(slices.Values(s.WarnBefore)) {
		until := now.Add(threshold)
		if err != nil {
			break
		}
		err = s.appendEach(ctx, func() ([]tables.Proxy, error) { return s.Ledger.Fleet.Unwarned(ctx, from, until, threshold, warnBatch) },
			func(p tables.Proxy) fact.Fact {
				return fact.ProxyExpiring{ProxyID: p.ProxyID, ExpiresAt: *p.ExpiresAt, ThresholdSeconds: int64(threshold / time.Second)}
			})
		from = until
	}
	return err
}

func (s *expiries) appendEach(ctx context.Context, find func() ([]tables.Proxy, error), f func(tables.Proxy) fact.Fact) error {
	for {
		found, err := find()
		if err != nil || len(found) == 0 {
			return err
		}
		facts := make([]fact.Fact, 0, len(found))
		for _, p := range found {
			facts = append(facts, f(p))
		}
		if err := s.Ledger.Write(ctx, func(tx *ledger.Tx) error { return tx.Append(facts...) }); err != nil {
			return fmt.Errorf("record %d expiries: %w", len(found), err)
		}
	}
}

const (
	paceQueue = 100
	// paceLeast and paceMost are the minimum and maximum duration of a measurement.
	paceLeast = 3 * time.Minute
	paceMost  = 10 * time.Minute
)

type pace struct {
	queued int
	turns  float64 // renewals made per minute
	late   int     // proxies that expire before their turn
	first  time.Time
}

type measurement struct {
	at  time.Time
	seq int64
}

type pacing struct {
	*Config

	pace     atomic.Pointer[pace] // nil if unknown, or if the queue is not long
	measured []measurement        // measurements of the last ten minutes; only watchPace uses them
}

func (s *pacing) watchPace(ctx context.Context) error {
	for {
		if err := sleep.For(ctx, warnEvery); err != nil {
			return err
		}
		if err := s.keepPace(ctx); err != nil && ctx.Err() == nil {
			s.Log.WithError(err).WithField("account", s.Account).Warn("the queue of renewals could not be measured; it is measured again")
		}
	}
}

// keepPace counts the renewals made since the queue became long, within the last paceMost. From
// this pace it derives how many proxies expire before their turn. If no renewal was made, the
// pace is unknown: outages, pauses and Retry-After are reported elsewhere.
func (s *pacing) keepPace(ctx context.Context) error {
	now := s.Clock()
	queued, err := s.Ledger.Money.RenewalsQueued(ctx, now.Add(-reservedFor))
	if err != nil || queued < paceQueue {
		s.measured = nil
		s.pace.Store(nil)
		return err
	}
	seq, _, err := s.Ledger.Head(ctx)
	if err != nil {
		return err
	}
	s.measured = append(s.measured, measurement{now, seq})
	for since := s.measured[0].at; since.After(now) || since.Before(now.Add(-paceMost)); since = s.measured[0].at {
		s.measured = s.measured[1:]
	}
	first := s.measured[0]
	if now.Sub(first.at) < paceLeast {
		return nil
	}
	turns, err := s.Ledger.Money.RenewalsSettled(ctx, first.at, first.seq)
	if err != nil || turns == 0 {
		s.pace.Store(nil)
		return err
	}
	x := &pace{queued: queued, turns: float64(turns) / now.Sub(first.at).Minutes()}
	if err := s.countLate(ctx, x); err != nil {
		return err
	}
	s.pace.Store(x)
	return nil
}

// countLate counts the queued proxies that expire before their turn. It assumes that the queue
// consists of the live proxies with the nearest expiries, because runs plan in that order.
func (s *pacing) countLate(ctx context.Context, x *pace) error {
	now, window, place := s.providerNow(), time.Duration(0), 0
	for _, r := range s.Schedules {
		window = max(window, r.RenewBefore)
	}
	return s.Ledger.Fleet.Expiring(ctx, now.Add(window), func(p tables.Proxy) error {
		if p.Retired || p.Unread() || !p.ExpiresAt.After(now) || place >= x.queued {
			return nil
		}
		place++
		turn := now.Add(time.Duration(float64(place) / x.turns * float64(time.Minute)))
		if !p.ExpiresAt.Before(turn) {
			return nil
		}
		if x.late++; x.first.IsZero() {
			x.first = *p.ExpiresAt
		}
		return nil
	})
}

func (s *pacing) lateRenewals() string {
	x := s.pace.Load()
	if x == nil || x.late == 0 {
		return ""
	}
	return fmt.Sprintf("%d renewals are queued and %.1f are made a minute: %d proxies expire before their turn, the first at %s; raise rate_per_second and concurrency, and renew_before for the next time",
		x.queued, x.turns, x.late, x.first.UTC().Format(time.RFC3339))
}
