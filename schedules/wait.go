package schedules

import (
	"context"
	"time"
)

// maxNap bounds one sleep, so that a wall clock that is set is noticed.
const maxNap = time.Minute

// waitUntil returns when the clock says at or later, or with the context's error.
func waitUntil(ctx context.Context, clock func() time.Time, at time.Time) error {
	for {
		left := at.Sub(clock())
		if left <= 0 {
			return ctx.Err()
		}
		if err := nap(ctx, min(left, maxNap)); err != nil {
			return err
		}
	}
}

func nap(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// delays grows from first to most by doubling. It is not jittered: one account
// has one runner.
type delays struct{ first, most, last time.Duration }

func (d *delays) next() time.Duration {
	d.last = min(max(d.first, 2*d.last), d.most)
	return d.last
}
