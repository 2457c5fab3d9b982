// Scheduled times across daylight-saving changes.

package plans

import (
	"time"

	"perennial/ledger/fact"
)

// nextByClock returns the first scheduled time after an instant, for a schedule that
// names its hours. It finds clock times without a zone and then places them in the zone.
// Both keep their order, so the first later one is the next.
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
		shown = next // shown a second time, or in an hour that does not exist
	}
}

// nextElapsed returns the first scheduled time after an instant, for a schedule that
// runs every hour, including in a repeated hour. Between two clock changes the clock
// follows elapsed time, so each span is searched as if there were no zone. The parser
// alone would skip a day without a midnight.
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
		span, from = changes, changes.Add(-time.Second) // the change itself may be a scheduled time
	}
}
