package sleep

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Backoff is the wait between the attempts of something that fails: it grows from the first
// wait to the longest, until Reset.
type Backoff struct{ delays *backoff.ExponentialBackOff }

// Growing grows by half each time, and is up to half longer or shorter by chance: what failed
// together does not come back together.
func Growing(first, most time.Duration) *Backoff {
	return backoffOf(first, most, backoff.DefaultMultiplier, backoff.DefaultRandomizationFactor)
}

// Doubling doubles each time, without chance.
func Doubling(first, most time.Duration) *Backoff { return backoffOf(first, most, 2, 0) }

func backoffOf(first, most time.Duration, by, chance float64) *Backoff {
	x := &backoff.ExponentialBackOff{InitialInterval: first, MaxInterval: most, Multiplier: by, RandomizationFactor: chance}
	x.Reset()
	return &Backoff{x}
}

// Next is how long the next wait is.
func (b *Backoff) Next() time.Duration { return b.delays.NextBackOff() }

// Wait waits that long; its error is ctx's, when that ends first.
func (b *Backoff) Wait(ctx context.Context) error { return For(ctx, b.Next()) }

// Reset begins again with the first wait: an attempt has worked.
func (b *Backoff) Reset() { b.delays.Reset() }
