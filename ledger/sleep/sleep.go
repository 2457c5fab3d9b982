// Package sleep waits for a time or for the end of a context, whichever comes first. It
// must not import other packages of Perennial, so that every package can use it.
package sleep

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// For waits for d. It returns the context's error if ctx ends first.
func For(ctx context.Context, d time.Duration) error {
	_, err := OrWoken(ctx, d, nil)
	return err
}

// OrWoken is like For, but it also ends when the channel delivers a value or is closed. woken is
// true in that case.
func OrWoken(ctx context.Context, d time.Duration, wake <-chan struct{}) (woken bool, err error) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return false, nil
	case <-wake:
		return true, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// maxSleep limits one sleep, so that a change of the wall clock is noticed.
const maxSleep = time.Minute

// Until waits until the clock shows at or later. It returns the context's error if ctx ends
// first.
func Until(ctx context.Context, clock func() time.Time, at time.Time) error {
	_, err := UntilOr(ctx, clock, at, nil)
	return err
}

// UntilOr is like Until, but it also ends when the channel delivers a value or is closed. woken
// is true in that case.
func UntilOr(ctx context.Context, clock func() time.Time, at time.Time, word <-chan struct{}) (woken bool, err error) {
	for {
		left := at.Sub(clock())
		if left <= 0 {
			return false, ctx.Err()
		}
		if woken, err := OrWoken(ctx, min(left, maxSleep), word); err != nil || woken {
			return woken, err
		}
	}
}

// Backoff is the growing delay between attempts. It grows from the first delay to the
// longest, until Reset.
type Backoff struct{ delays *backoff.ExponentialBackOff }

// Growing returns a Backoff that grows by half each time, up to most, and varies each delay
// randomly by up to half. Clients that failed at the same time therefore retry at different
// times.
func Growing(first, most time.Duration) *Backoff {
	return backoffOf(first, most, backoff.DefaultMultiplier, backoff.DefaultRandomizationFactor)
}

// Doubling returns a Backoff that doubles each time, without randomness.
func Doubling(first, most time.Duration) *Backoff { return backoffOf(first, most, 2, 0) }

func backoffOf(first, most time.Duration, by, chance float64) *Backoff {
	x := &backoff.ExponentialBackOff{InitialInterval: first, MaxInterval: most, Multiplier: by, RandomizationFactor: chance}
	x.Reset()
	return &Backoff{x}
}

// Next returns the next delay.
func (b *Backoff) Next() time.Duration { return b.delays.NextBackOff() }

// Wait waits for the next delay. It returns ctx's error if ctx ends first.
func (b *Backoff) Wait(ctx context.Context) error { return For(ctx, b.Next()) }

// Reset makes the next delay the first one again. Call it after a successful attempt.
func (b *Backoff) Reset() { b.delays.Reset() }

// Lock is a mutex for which a caller can wait until a context ends.
type Lock chan struct{}

// NewLock returns a free lock.
func NewLock() Lock { return make(Lock, 1) }

// Take takes the lock. It returns the context's error if ctx ends first.
func (l Lock) Take(ctx context.Context) error {
	select {
	case l <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Give releases the lock.
func (l Lock) Give() { <-l }
