// This file has amounts that may be unknown, and their sums.

package fact

import (
	"encoding/json"
	"fmt"
)

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

// Total returns the sum of the known amounts. It is unknown if an amount is unknown and the
// known ones are 0 or missing.
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
	return fmt.Sprintf("%s, %s of it list price, no renewal paid yet", s.Text(currency), Amount(listCents, currency))
}
