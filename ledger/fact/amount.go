package fact

import (
	"encoding/json"
	"fmt"

	"github.com/shopspring/decimal"
)

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

// Share divides cents into equal parts and returns part n, counting from 0. The argument of is
// the number of parts, and cents must not be negative. The parts add up to cents: the first parts
// get the remainder.
func Share(cents int64, n, of int) int64 {
	part, rest := cents/int64(of), cents%int64(of)
	if int64(n) < rest {
		part++
	}
	return part
}

// Cents is an amount in cents that may be unknown. The zero value is unknown; in JSON it is
// null.
type Cents struct {
	cents int64
	known bool
}

// Known returns a known amount.
func Known(cents int64) Cents { return Cents{cents, true} }

// Estimated converts an estimate from the form in which the ledger and facts store it, where
// 0 means that there is no estimate.
func Estimated(cents int64) Cents { return Cents{cents, cents != 0} }

// Known reports whether the amount is known.
func (c Cents) Known() bool { return c.known }

// Or returns the amount in cents. If it is unknown, it returns the argument.
func (c Cents) Or(otherwise int64) int64 {
	if c.known {
		return c.cents
	}
	return otherwise
}

// Most returns the greater of two amounts. If one is unknown, it returns the other.
func (c Cents) Most(o Cents) Cents {
	if !c.known || o.known && o.cents > c.cents {
		return o
	}
	return c
}

// MarshalJSON writes null for an unknown amount.
func (c Cents) MarshalJSON() ([]byte, error) {
	if !c.known {
		return []byte("null"), nil
	}
	return json.Marshal(c.cents)
}

// UnmarshalJSON reads the output of MarshalJSON.
func (c *Cents) UnmarshalJSON(data []byte) error {
	var cents *int64
	err := json.Unmarshal(data, &cents)
	if *c = (Cents{}); cents != nil {
		*c = Known(*cents)
	}
	return err
}

// Sum is a sum of amounts of which some may be unknown.
type Sum struct {
	Cents int64 // sum of the known amounts
	Lacks int   // number of unknown amounts
}

// Add returns the sum plus one more amount.
func (s Sum) Add(c Cents) Sum {
	if s.Cents += c.cents; !c.known {
		s.Lacks++
	}
	return s
}

// Join adds two sums.
func (s Sum) Join(o Sum) Sum { return Sum{s.Cents + o.Cents, s.Lacks + o.Lacks} }

// Total returns the sum of the known amounts. If some amounts are unknown and the others sum
// to 0, the total is unknown.
func (s Sum) Total() Cents { return Cents{s.Cents, s.Lacks == 0 || s.Cents != 0} }

// Text formats the sum for people. It never shows an unknown amount as 0.
func (s Sum) Text(currency string) string {
	switch {
	case s.Lacks == 0:
		return Amount(s.Cents, currency)
	case s.Cents == 0:
		return fmt.Sprintf("an unknown amount (%d of unknown price)", s.Lacks)
	}
	return fmt.Sprintf("at least %s (%d of unknown price)", Amount(s.Cents, currency), s.Lacks)
}

// ListedText is Text for a sum that includes list prices. listCents is the sum of the list
// prices.
func (s Sum) ListedText(listCents int64, currency string) string {
	switch {
	case listCents == 0:
		return s.Text(currency)
	case s == Sum{Cents: listCents}:
		return "list price " + Amount(listCents, currency) + ", no renewal paid yet"
	}
	return fmt.Sprintf("%s (%s of it list price, no renewal paid yet)", s.Text(currency), Amount(listCents, currency))
}

// ScalePrice scales a price to another number of days. cents is the price for paidDays. The
// result is rounded up, so that an estimate is never too low. If paidDays is 0, ScalePrice
// returns cents.
func ScalePrice(cents, paidDays, days int64) int64 {
	if paidDays <= 0 {
		return cents
	}
	return (cents*days + paidDays - 1) / paidDays
}
