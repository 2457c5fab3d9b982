// This file has a renewal in the form in which the ledger stores it.

package fact

import (
	"time"
)

// Renewal is a successful renewal of one proxy.
type Renewal struct {
	// ObservedExpiresAt is the expiry that it paid for, or nil if unknown.
	ObservedExpiresAt *time.Time
	DurationDays      int64
	SettledAt         time.Time
}
