package fact

import (
	"time"
)

// Day is 24 elapsed hours.
const Day = 24 * time.Hour

// Shown returns what the zone's clock shows at an instant, as a time in UTC. Clock changes
// do not affect calculations with this time. It has whole seconds.
func Shown(at time.Time, zone *time.Location) time.Time {
	_, offset := at.In(zone).Zone()
	return time.Unix(at.Unix()+int64(offset), 0).UTC()
}

// FirstShown returns the first instant, in UTC, at which the zone's clock shows a time in
// whole seconds. If the clock skips that time, it returns the instant of the change.
func FirstShown(shown time.Time, zone *time.Location) time.Time {
	at := time.Date(shown.Year(), shown.Month(), shown.Day(), shown.Hour(), shown.Minute(), shown.Second(), 0, zone)
	begin, end := at.ZoneBounds()
	switch have := Shown(at, zone); {
	case have.After(shown): // time.Date chose the instant after the gap
		return begin.UTC()
	case have.Before(shown):
		return end.UTC()
	case begin.IsZero():
		return at.UTC()
	}
	_, before := begin.Add(-time.Second).Zone()
	if earlier := time.Unix(shown.Unix()-int64(before), 0); earlier.Before(begin) && Shown(earlier, zone).Equal(shown) {
		return earlier.UTC()
	}
	return at.UTC()
}

// Midnight returns the start of a day in a zone, in UTC. If the clock shows midnight twice,
// it returns the first; if the clock skips midnight, it returns the instant of the change.
// month and day may be out of range, as in time.Date.
func Midnight(year int, month time.Month, day int, zone *time.Location) time.Time {
	return FirstShown(time.Date(year, month, day, 0, 0, 0, 0, time.UTC), zone)
}

// StartOfDay returns the start of an instant's day in a zone, in UTC. Days have no gaps
// or overlaps, whatever the clock shows. Every instant from one day's start to NextDay has
// the same StartOfDay.
func StartOfDay(at time.Time, zone *time.Location) time.Time {
	shown := Shown(at, zone)
	begin := time.Time{}
	for n := 1; begin.IsZero() || begin.After(at); n-- {
		begin = Midnight(shown.Year(), shown.Month(), shown.Day()+n, zone)
	}
	return begin
}

// NextDay returns the start of the day after an instant's day in a zone, in UTC. It is
// always after the instant.
func NextDay(at time.Time, zone *time.Location) time.Time {
	shown := Shown(at, zone)
	begin := time.Time{}
	for n := 0; !begin.After(at); n++ {
		begin = Midnight(shown.Year(), shown.Month(), shown.Day()+n, zone)
	}
	return begin
}

// StartOfMonth returns the start of an instant's month in a zone, in UTC.
func StartOfMonth(at time.Time, zone *time.Location) time.Time {
	shown := Shown(at, zone)
	begin := time.Time{}
	for n := time.Month(1); begin.IsZero() || begin.After(at); n-- {
		begin = Midnight(shown.Year(), shown.Month()+n, 1, zone)
	}
	return begin
}

// WritableInstant reports whether commands and facts can contain an instant. In UTC, its year
// must be between 1 and 9999. An instant with another offset may show a valid year although its
// year in UTC is 0 or 10000.
func WritableInstant(t time.Time) bool {
	y := t.UTC().Year()
	return !t.IsZero() && y >= 1 && y <= 9999 // the zero time means that there is no instant
}

// ExpiryTolerance is larger than the difference between two reads of the same expiry. A list may
// round to minutes or days, whereas the details show seconds. The tolerance is smaller than the
// extension by a renewal, which is at least 30 days.
const ExpiryTolerance = 24 * time.Hour

// ClockTolerance is the largest difference between two clocks that are both accurate enough
// for the provider. Each may differ from the provider's clock by five minutes.
const ClockTolerance = 10 * time.Minute

// SameExpiry reports whether two reads show the same expiry. A renewal moves an expiry by more
// than the tolerance.
func SameExpiry(a, b time.Time) bool { return a.Sub(b).Abs() < ExpiryTolerance }

// Expiry returns an expiry in its stored form, truncated to seconds. Nil stays nil.
func Expiry(at *time.Time) *time.Time {
	if at == nil {
		return nil
	}
	second := at.Truncate(time.Second)
	return &second
}
