package schedules

import "time"

// wall is what the zone's clock shows at an instant, as if it were UTC: on it
// the hours of a day follow one another without gap or repetition.
func wall(at time.Time, zone *time.Location) time.Time {
	_, offset := at.In(zone).Zone()
	return time.Unix(at.Unix()+int64(offset), 0).UTC()
}

// nextByClock is the first slot after an instant, of a schedule that names its
// hours. Its times of the clock are looked for without a zone, and then put into
// the zone. Both keep their order, so the first that lies after is the next.
func (c Calendar) nextByClock(after time.Time) time.Time {
	shown := wall(after, c.zone)
	for {
		next := c.spec.Next(shown)
		if !next.After(shown) {
			return time.Time{}
		}
		if at := first(next, c.zone); at.After(after) {
			return at
		}
		shown = next // shown for the second time, or in an hour that does not exist
	}
}

// first is the first instant at which the zone's clock shows a time, in UTC; for
// a time that it never shows, the instant at which it goes past it.
func first(shown time.Time, zone *time.Location) time.Time {
	at := time.Date(shown.Year(), shown.Month(), shown.Day(), shown.Hour(), shown.Minute(), shown.Second(), 0, zone)
	begin, end := at.ZoneBounds()
	switch have := wall(at, zone); {
	case have.After(shown): // time.Date chose the side behind the gap
		return begin.UTC()
	case have.Before(shown):
		return end.UTC()
	case begin.IsZero():
		return at.UTC()
	}
	_, before := begin.Add(-time.Second).Zone()
	if earlier := time.Unix(shown.Unix()-int64(before), 0); earlier.Before(begin) && wall(earlier, zone).Equal(shown) {
		return earlier.UTC()
	}
	return at.UTC()
}
