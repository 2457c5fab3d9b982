// How a price is scaled from one duration to another.

package fact

// ScalePrice is what days cost when paidDays cost cents, rounded up: an
// estimate is never short of the price by a rounding.
func ScalePrice(cents, paidDays, days int64) int64 {
	if paidDays <= 0 {
		return cents
	}
	return (cents*days + paidDays - 1) / paidDays
}
