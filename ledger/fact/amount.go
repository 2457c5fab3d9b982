// How money is shown to people, and divided.

package fact

import "github.com/shopspring/decimal"

// Amount is how a person reads money: 1234 cents of USD are "12.34 USD". Without a
// currency it is the number alone.
func Amount(cents int64, currency string) string {
	if currency == "" {
		return Decimal(cents)
	}
	return Decimal(cents) + " " + currency
}

// Amount shows cents in the currency of the account.
func (b Binding) Amount(cents int64) string { return Amount(cents, b.Currency) }

// Decimal shows cents in the main unit, as an exact decimal.
func Decimal(cents int64) string { return decimal.New(cents, -2).StringFixed(2) }

// Share is the n-th, from 0, of so many parts of an amount in cents. The parts add up to
// it: the first ones have what is left over.
func Share(cents int64, n, of int) int64 {
	part, rest := cents/int64(of), cents%int64(of)
	if int64(n) < rest {
		part++
	}
	return part
}
