// This file computes scheduled times across daylight-saving changes.

package plans

import (
	"time"

	"perennial/ledger/fact"
)

// nextByClock returns the first scheduled time after an instant, for a schedule that does
// not run every hour. It computes clock times without a zone, and converts them to instants
// in the zone. The conversion keeps their order, so the first result after the given instant
// is the next scheduled time.
func (c Calendar) nextByClock(after time.Time) time.Time {
	shown := fact.Shown(after, c.Zone)
	for {
		next := c.spec.Next(shown)
		if !next.After(shown) {
			return time.Time{}
		}
		if at := fact.FirstShown(next, c.Zone); at.After(after) {
			return at
		}
		shown = next // at is not after the given instant, because the clock time occurs twice or its hour does not exist
	}
}

// nextElapsed returns the first scheduled time after an instant, for a schedule that runs
// every hour. Such a schedule runs in both passes of a repeated hour. Between two clock
// changes, clock time follows elapsed time, so each such span is searched with a fixed
// offset. The cron parser's own zone support would skip a day without a midnight.
func (c Calendar) nextElapsed(after time.Time) time.Time {
	from := after.Truncate(time.Second)
	span := from.In(c.Zone)
	for {
		_, offset := span.Zone()
		shown := time.Unix(from.Unix()+int64(offset), 0).UTC()
		next := c.spec.Next(shown)
		if !next.After(shown) {
			return time.Time{}
		}
		at := from.Add(next.Sub(shown))
		_, changes := span.ZoneBounds()
		if changes.IsZero() || at.Before(changes) {
			return at.UTC()
		}
		span, from = changes, changes.Add(-time.Second) // the instant of the change may itself be a scheduled time
	}
}
