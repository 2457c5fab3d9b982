// Instants as facts write them: which can be written, and expiries to the second.

package fact

import "time"

// WritableInstant reports whether an instant can be written in UTC as commands and
// facts write it, from the year 1 to the year 9999: what is valid with its offset
// may lie in the year 0 or 10000 without it.
func WritableInstant(t time.Time) bool {
	y := t.UTC().Year()
	return !t.IsZero() && y >= 1 && y <= 9999 // the first instant of the year 1 stands for none
}

// Expiry is an expiry as it is kept and compared: to the second. A provider may show it
// to different precisions in different replies; a renewal moves it by days. Nil is nil.
func Expiry(at *time.Time) *time.Time {
	if at == nil {
		return nil
	}
	second := at.Truncate(time.Second)
	return &second
}
