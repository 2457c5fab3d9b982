package sqlite

import (
	"database/sql"
	"time"
)

// NullInstant stores a missing or zero instant as NULL, never as year 1.
func NullInstant(at *time.Time) any {
	if at == nil || at.IsZero() {
		return nil
	}
	return Micros(*at)
}

// Micros returns an instant as it is stored, so that two notations of one instant are
// equal.
func Micros(t time.Time) int64 { return t.UnixMicro() }

// FromMicros is the inverse of Micros, in UTC.
func FromMicros(us int64) time.Time { return time.UnixMicro(us).UTC() }

// Instant converts a nullable stored instant.
func Instant(us sql.NullInt64) *time.Time {
	if !us.Valid {
		return nil
	}
	at := FromMicros(us.Int64)
	return &at
}
