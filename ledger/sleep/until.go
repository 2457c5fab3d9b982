package sleep

import (
	"context"
	"time"
)

// maxSleep limits one sleep, so that a change of the wall clock is noticed.
const maxSleep = time.Minute

// Until waits until the clock shows at or later. It returns the context's error if ctx ends
// first.
func Until(ctx context.Context, clock func() time.Time, at time.Time) error {
	_, err := UntilOr(ctx, clock, at, nil)
	return err
}

// UntilOr is Until that also ends, with woken true, when the channel delivers a value or is
// closed.
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
