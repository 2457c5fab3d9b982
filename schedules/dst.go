// Slots across changes of a zone's clock, for schedules that name their hours.

package schedules

import (
	"time"

	"perennial/ledger/fact"
)

// nextByClock is the first slot after an instant, of a schedule that names its
// hours. Its times of the clock are looked for without a zone, and then put into
// the zone. Both keep their order, so the first that lies after is the next.
func (c calendar) nextByClock(after time.Time) time.Time {
	shown := fact.Shown(after, c.zone)
	for {
		next := c.spec.Next(shown)
		if !next.After(shown) {
			return time.Time{}
		}
		if at := fact.FirstShown(next, c.zone); at.After(after) {
			return at
		}
		shown = next // shown for the second time, or in an hour that does not exist
	}
}
