// Amounts that may not be known, and their sums.

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

// Known is an amount that is known.
func Known(cents int64) Cents { return Cents{cents, true} }

// Estimated is an estimate as the ledger and the facts keep it: 0 where none was made.
func Estimated(cents int64) Cents { return Cents{cents, cents != 0} }

// Known reports whether the amount is known.
func (c Cents) Known() bool { return c.known }

// Or is the amount, or another where it is not known.
func (c Cents) Or(otherwise int64) int64 {
	if c.known {
		return c.cents
	}
	return otherwise
}

// Most is the greater of two amounts, of those that are known.
func (c Cents) Most(o Cents) Cents {
	if !c.known || o.known && o.cents > c.cents {
		return o
	}
	return c
}

// MarshalJSON writes null for an amount that is not known.
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
	Cents int64 // of what is known
	Lacks int   // how many are not known
}

// Add is the sum with one more amount.
func (s Sum) Add(c Cents) Sum {
	if s.Cents += c.cents; !c.known {
		s.Lacks++
	}
	return s
}

// Join is both sums together.
func (s Sum) Join(o Sum) Sum { return Sum{s.Cents + o.Cents, s.Lacks + o.Lacks} }

// Total is what is known of the sum; not known where nothing of it is.
func (s Sum) Total() Cents { return Cents{s.Cents, s.Lacks == 0 || s.Cents != 0} }

// Text is a sum as people read it: what is not known is never shown as 0.
func (s Sum) Text(currency string) string {
	switch {
	case s.Lacks == 0:
		return Amount(s.Cents, currency)
	case s.Cents == 0:
		return fmt.Sprintf("an unknown amount (%d of unknown price)", s.Lacks)
	}
	return fmt.Sprintf("at least %s (%d of unknown price)", Amount(s.Cents, currency), s.Lacks)
}

// ListedText is Text of a sum that list prices are part of.
func (s Sum) ListedText(listCents int64, currency string) string {
	switch {
	case listCents == 0:
		return s.Text(currency)
	case s == Sum{Cents: listCents}:
		return "list price " + Amount(listCents, currency) + ", not yet paid once"
	}
	return fmt.Sprintf("%s, %s of it list price, not yet paid once", s.Text(currency), Amount(listCents, currency))
}
