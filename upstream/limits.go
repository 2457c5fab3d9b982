// The provider's limits of a request (API: Limits).

package upstream

import "time"

const (
	DayStep       = 30   // a duration is a multiple of it
	MaxRenewDays  = 1095 // of one renewal
	MaxOrderLines = 50
	MaxQuantity   = 2000 // of an order, and of each of its lines
	// MaxSkew is how far a request's timestamp may be from the provider's clock.
	MaxSkew = 5 * time.Minute
)
