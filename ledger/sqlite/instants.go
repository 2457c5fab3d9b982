package sqlite

import (
	"database/sql"
	"time"
)

// NullInstant returns an instant in its stored form, or NULL (nil) for a missing or zero
// instant.
func NullInstant(at *time.Time) any {
	if at == nil || at.IsZero() {
		return nil
	}
	return Micros(*at)
}

// Micros returns an instant in its stored form: microseconds since 1970. The time zone of t
// makes no difference.
func Micros(t time.Time) int64 { return t.UnixMicro() }

// FromMicros is the inverse of Micros, in UTC.
func FromMicros(us int64) time.Time { return time.UnixMicro(us).UTC() }

// Instant converts an instant that may be NULL.
func Instant(us sql.NullInt64) *time.Time {
	if !us.Valid {
		return nil
	}
	at := FromMicros(us.Int64)
	return &at
}
