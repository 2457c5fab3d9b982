// Instants as facts write them: which can be written, and when two expiries are one.

package fact

import "time"

// WritableInstant reports whether an instant can be written in UTC as commands and
// facts write it, from the year 1 to the year 9999: what is valid with its offset
// may lie in the year 0 or 10000 without it.
func WritableInstant(t time.Time) bool {
	y := t.UTC().Year()
	return !t.IsZero() && y >= 1 && y <= 9999 // the first instant of the year 1 represents none
}

// ExpiryTolerance is by less than what two readings of one expiry differ: a list may show
// minutes, or days, where a detail shows seconds. A renewal moves it by 30 days at least,
// of days that the provider counts.
const ExpiryTolerance = 24 * time.Hour

// SameExpiry reports whether two readings are of one expiry, and no renewal is between them.
func SameExpiry(a, b time.Time) bool { return a.Sub(b).Abs() < ExpiryTolerance }

// Expiry is an expiry as it is kept: to the second. Nil is nil.
func Expiry(at *time.Time) *time.Time {
	if at == nil {
		return nil
	}
	second := at.Truncate(time.Second)
	return &second
}
