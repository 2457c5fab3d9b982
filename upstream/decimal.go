// Decimal amounts compared with integer cents.

package upstream

import (
	"strings"

	"github.com/shopspring/decimal"
)

// maxDecimal is the longest decimal string that is read as an amount, in bytes.
const maxDecimal = 40

// AmountAgrees reports whether a decimal string in the main unit is the same money
// as an integer count of cents (API: General conventions). A string that was not
// given agrees with anything; one that is no amount agrees with nothing.
func AmountAgrees(amount string, cents int64) bool {
	if amount == "" {
		return true
	}
	if len(amount) > maxDecimal || strings.ContainsAny(amount, "eE") { // an exponent costs its size to compare
		return false
	}
	d, err := decimal.NewFromString(amount)
	return err == nil && d.Equal(decimal.New(cents, -2))
}

// decimal reads a decimal string, or a number, as its text; "" for anything else,
// which says nothing of the cents beside it.
func (o *object) decimal(key string) string {
	if !isText(o.raw(key)) {
		return ""
	}
	return bounded(o.text(key), maxDecimal+1)
}
