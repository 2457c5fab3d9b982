// This file publishes warnings before proxies expire, and reports of expired proxies.

package schedules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/sleep"
	"perennial/ledger/tables"
)

const (
	// warnEvery is how often the table of proxies is read for expiries.
	warnEvery = time.Minute
	// warnBatch limits the facts of one transaction.
	warnBatch = 500
)

// defaultWarnBefore is the default of Config.WarnBefore. A working schedule renews a proxy
// earlier than this before its expiry.
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

// expiries publishes upcoming and past expiries.
type expiries struct {
	*Config

	tried <-chan struct{} // closed when the first listing of this process has ended or failed
}

// watchExpiries publishes an event for each proxy that expires soon or has expired. It reads
// the ledger's table, so it works even while the provider is down. It starts when the first
// listing has ended or failed.
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

// Warn appends proxy.expiring and proxy.expired, each once per expiry and threshold. If a
// proxy is within several thresholds, only the smallest is published. Expiries before the
// ledger was opened are not published.
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

// appendEach appends a fact for each proxy that find returns, in batches, until find returns
// no more proxies.
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
