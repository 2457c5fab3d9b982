// Instants in facts: which can be written, and when two expiries are the same.

package fact

import "time"

// WritableInstant reports whether an instant can be written in UTC in commands and facts,
// from year 1 to year 9999. An instant valid with its offset may be in year 0 or 10000 in
// UTC.
func WritableInstant(t time.Time) bool {
	y := t.UTC().Year()
	return !t.IsZero() && y >= 1 && y <= 9999 // the zero time means none
}

// ExpiryTolerance exceeds the difference of two readings of one expiry: a list may show
// minutes or days where a detail shows seconds. A renewal moves an expiry by at least 30 of
// the provider's days.
const ExpiryTolerance = 24 * time.Hour

// ClockTolerance is the most by which two clocks differ that the provider accepts: each is
// within five minutes of the provider's.
const ClockTolerance = 10 * time.Minute

// SameExpiry reports whether two readings show the same expiry, with no renewal between.
func SameExpiry(a, b time.Time) bool { return a.Sub(b).Abs() < ExpiryTolerance }

// Expiry returns an expiry as it is stored, to the second. Nil stays nil.
func Expiry(at *time.Time) *time.Time {
	if at == nil {
		return nil
	}
	second := at.Truncate(time.Second)
	return &second
}
