// Amounts that may be unknown, and their sums.

package fact

import (
	"encoding/json"
	"fmt"
)

// Cents is an amount in cents that may not be known. Its zero value is not known; JSON has
// null for it.
type Cents struct {
	cents int64
	known bool
}

// Known returns a known amount.
func Known(cents int64) Cents { return Cents{cents, true} }

// Estimated returns an estimate as ledger and facts store it: 0 means that there is none.
func Estimated(cents int64) Cents { return Cents{cents, cents != 0} }

// Known reports whether the amount is known.
func (c Cents) Known() bool { return c.known }

// Or returns the amount, or otherwise if it is unknown.
func (c Cents) Or(otherwise int64) int64 {
	if c.known {
		return c.cents
	}
	return otherwise
}

// Most returns the greater of two amounts, ignoring an unknown one.
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

// UnmarshalJSON reads what MarshalJSON writes.
func (c *Cents) UnmarshalJSON(data []byte) error {
	var cents *int64
	err := json.Unmarshal(data, &cents)
	if *c = (Cents{}); cents != nil {
		*c = Known(*cents)
	}
	return err
}

// Sum adds up amounts, and counts those that it lacks.
type Sum struct {
	Cents int64 // of the known amounts
	Lacks int   // number of unknown amounts
}

// Add returns the sum with one more amount.
func (s Sum) Add(c Cents) Sum {
	if s.Cents += c.cents; !c.known {
		s.Lacks++
	}
	return s
}

// Join returns the two sums together.
func (s Sum) Join(o Sum) Sum { return Sum{s.Cents + o.Cents, s.Lacks + o.Lacks} }

// Total returns the known part of the sum; unknown if no part is known.
func (s Sum) Total() Cents { return Cents{s.Cents, s.Lacks == 0 || s.Cents != 0} }

// Text formats a sum for people. It never shows an unknown amount as 0.
func (s Sum) Text(currency string) string {
	switch {
	case s.Lacks == 0:
		return Amount(s.Cents, currency)
	case s.Cents == 0:
		return fmt.Sprintf("an unknown amount (%d of unknown price)", s.Lacks)
	}
	return fmt.Sprintf("at least %s (%d of unknown price)", Amount(s.Cents, currency), s.Lacks)
}

// ListedText is Text for a sum that includes list prices.
func (s Sum) ListedText(listCents int64, currency string) string {
	switch {
	case listCents == 0:
		return s.Text(currency)
	case s == Sum{Cents: listCents}:
		return "list price " + Amount(listCents, currency) + ", no renewal paid yet"
	}
	return fmt.Sprintf("%s, %s of it list price, no renewal paid yet", s.Text(currency), Amount(listCents, currency))
}
