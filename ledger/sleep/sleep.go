// Package sleep waits for a time or for the end of a context, whichever comes first. It
// must not import other packages of Perennial, so that every package can use it.
package sleep

import (
	"context"
	"time"
)

// For waits for d. It returns the context's error if ctx ends first.
func For(ctx context.Context, d time.Duration) error {
	_, err := OrWoken(ctx, d, nil)
	return err
}

// OrWoken is like For, but also ends, with woken true, when the channel delivers a value or is
// closed.
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
