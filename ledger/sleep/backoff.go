package sleep

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Backoff is the growing delay between attempts. It grows from the first delay to the
// longest, until Reset.
type Backoff struct{ delays *backoff.ExponentialBackOff }

// Growing returns a Backoff that grows by half each time, up to most, and varies each delay
// randomly by up to half. Clients that failed at the same time then retry at different
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
