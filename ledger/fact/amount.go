// How money is shown to people, and divided.

package fact

import "github.com/shopspring/decimal"

// Amount is how a person reads money: 123456 cents of USD are "1,234.56 USD". Without a
// currency it is the number alone. It is the one place that separates thousands; what
// programs read is cents, or Decimal.
func Amount(cents int64, currency string) string {
	text := Decimal(cents)
	for at := len(text) - len(".00") - 3; at > 0 && text[at-1] != '-'; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	if currency == "" {
		return text
	}
	return text + " " + currency
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
