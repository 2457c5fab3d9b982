// A renewal as the ledger keeps it.

package fact

import (
	"time"
)

// Renewal is a renewal of one proxy that succeeded.
type Renewal struct {
	// ObservedExpiresAt is the expiry that it paid for; nil when it is not known.
	ObservedExpiresAt *time.Time
	DurationDays      int64
	SettledAt         time.Time
}
