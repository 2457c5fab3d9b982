// This file has rules for instants in facts: which can be written, and when two expiries
// are the same.

package fact

import "time"

// WritableInstant reports whether commands and facts can contain an instant: in UTC it must
// be in the years 1 to 9999. With another offset, an instant of these years may be in year 0
// or 10000 in UTC.
func WritableInstant(t time.Time) bool {
	y := t.UTC().Year()
	return !t.IsZero() && y >= 1 && y <= 9999 // the zero time means that there is no instant
}

// ExpiryTolerance is larger than the difference between two reads of the same expiry. A list
// may round to minutes or days, whereas the details show seconds. The tolerance is smaller
// than the change by a renewal, which is at least 30 days.
const ExpiryTolerance = 24 * time.Hour

// ClockTolerance is the largest difference between two clocks that are both accurate enough
// for the provider. Each may differ from the provider's clock by five minutes.
const ClockTolerance = 10 * time.Minute

// SameExpiry reports whether two reads show the same expiry, without a renewal in between.
func SameExpiry(a, b time.Time) bool { return a.Sub(b).Abs() < ExpiryTolerance }

// Expiry returns an expiry in its stored form, truncated to seconds. Nil stays nil.
func Expiry(at *time.Time) *time.Time {
	if at == nil {
		return nil
	}
	second := at.Truncate(time.Second)
	return &second
}
