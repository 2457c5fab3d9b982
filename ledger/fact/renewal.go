// A renewal as the ledger keeps it.

package fact

import (
	"time"
)

// Renewal is a successful renewal of one proxy.
type Renewal struct {
	// ObservedExpiresAt is the expiry that it paid for; nil if unknown.
	ObservedExpiresAt *time.Time
	DurationDays      int64
	SettledAt         time.Time
}
