// This file formats and divides amounts of money.

package fact

import "github.com/shopspring/decimal"

// Amount formats money for people: 123456 cents of USD are "1,234.56 USD". If currency is
// "", it returns only the number. No other function separates thousands; programs use cents
// or Decimal.
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

// Amount formats cents in the account's currency.
func (b Binding) Amount(cents int64) string { return Amount(cents, b.Currency) }

// Decimal formats cents as an exact decimal number of the main unit.
func Decimal(cents int64) string { return decimal.New(cents, -2).StringFixed(2) }

// Share splits an amount in cents into a number of parts (of) and returns part n, counting
// from
// 0. The parts add up to the amount, which must not be negative. The first parts get one cent
// more if there is a remainder.
func Share(cents int64, n, of int) int64 {
	part, rest := cents/int64(of), cents%int64(of)
	if int64(n) < rest {
		part++
	}
	return part
}
