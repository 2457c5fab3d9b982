// Slots across changes of a zone's clock.

package plans

import (
	"time"

	"perennial/ledger/fact"
)

// nextByClock is the first slot after an instant, of a schedule that names its
// hours. Its times of the clock are looked for without a zone, and then put into
// the zone. Both keep their order, so the first that lies after is the next.
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
		shown = next // shown for the second time, or in an hour that does not exist
	}
}

// nextElapsed is the first slot after an instant, of a schedule that fires in every hour:
// wherever the zone's clock shows a time of it, also for the second time. Between two changes
// the clock goes with elapsed time, so each span is searched as if there were no zone: the
// parser itself leaves out a day that has no midnight.
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
		span, from = changes, changes.Add(-time.Second) // the change itself may be a slot
	}
}
