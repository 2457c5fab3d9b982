package sleep

import (
	"context"
	"time"
)

// maxSleep bounds one sleep, so that a change of the wall clock is noticed.
const maxSleep = time.Minute

// Until returns when the clock says at or later, or with the context's error.
func Until(ctx context.Context, clock func() time.Time, at time.Time) error {
	_, err := UntilOr(ctx, clock, at, nil)
	return err
}

// UntilOr is Until that a value on a channel, or its closing, ends too.
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
