// This file scales a price from one duration to another.

package fact

// ScalePrice returns the cost of days if paidDays cost cents. It rounds up, so that an
// estimate is never too low. If paidDays is 0, it returns cents.
func ScalePrice(cents, paidDays, days int64) int64 {
	if paidDays <= 0 {
		return cents
	}
	return (cents*days + paidDays - 1) / paidDays
}
