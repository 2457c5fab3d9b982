// Package sleep waits for a time or for the end of a context, whichever comes first.
// It imports nothing of Perennial, so that every package may use it.
package sleep

import (
	"context"
	"time"
)

// For returns nil after d, or the context's error when that ends first.
func For(ctx context.Context, d time.Duration) error {
	_, err := OrWoken(ctx, d, nil)
	return err
}

// OrWoken is For that a value on a channel, or its closing, ends too.
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
