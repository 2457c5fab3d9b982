// Waiting for an instant of the injected clock, and delays that double.

package schedules

import (
	"context"
	"time"

	"perennial/ledger/sleep"
)

// maxSleep bounds one sleep, so that a change of the wall clock is noticed.
const maxSleep = time.Minute

// waitUntil returns when the clock says at or later, or with the context's error.
func waitUntil(ctx context.Context, clock func() time.Time, at time.Time) error {
	_, err := waitOr(ctx, clock, at, nil)
	return err
}

// waitOr is waitUntil that a value on a channel, or its closing, ends too.
func waitOr(ctx context.Context, clock func() time.Time, at time.Time, word <-chan struct{}) (woken bool, err error) {
	for {
		left := at.Sub(clock())
		if left <= 0 {
			return false, ctx.Err()
		}
		if woken, err := sleep.OrWoken(ctx, min(left, maxSleep), word); err != nil || woken {
			return woken, err
		}
	}
}
