package sleep

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Backoff is the growing wait between attempts of something that fails. It grows from the
// first wait to the longest, until Reset.
type Backoff struct{ delays *backoff.ExponentialBackOff }

// Growing grows by half each time and varies randomly by up to half. Clients that failed
// together then do not return together.
func Growing(first, most time.Duration) *Backoff {
	return backoffOf(first, most, backoff.DefaultMultiplier, backoff.DefaultRandomizationFactor)
}

// Doubling doubles each time, without randomness.
func Doubling(first, most time.Duration) *Backoff { return backoffOf(first, most, 2, 0) }

func backoffOf(first, most time.Duration, by, chance float64) *Backoff {
	x := &backoff.ExponentialBackOff{InitialInterval: first, MaxInterval: most, Multiplier: by, RandomizationFactor: chance}
	x.Reset()
	return &Backoff{x}
}

// Next returns the next wait.
func (b *Backoff) Next() time.Duration { return b.delays.NextBackOff() }

// Wait waits for the next duration; its error is ctx's if ctx ends first.
func (b *Backoff) Wait(ctx context.Context) error { return For(ctx, b.Next()) }

// Reset returns to the first wait, after an attempt has succeeded.
func (b *Backoff) Reset() { b.delays.Reset() }
