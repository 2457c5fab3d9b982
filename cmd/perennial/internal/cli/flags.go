// Flags that several commands use: whole numbers, amounts, durations, times and signatures.

package cli

import (
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// wholeFlag is a flag for a whole number in plain decimal digits. pflag's own flags read 010
// as 8, 0x10 as 16 and 1_000 as 1000, which is dangerous for an amount of money.
type wholeFlag[T int | int64 | uint64] struct{ value *T }

// wholeVar adds a whole-number flag.
func wholeVar[T int | int64 | uint64](f *pflag.FlagSet, p *T, name string, value T, usage string) {
	*p = value
	f.Var(wholeFlag[T]{p}, name, usage)
}

// Set implements pflag.Value.
func (w wholeFlag[T]) Set(text string) error {
	n, err := strconv.ParseInt(text, 10, 64)
	x := T(n)
	switch {
	case errors.Is(err, strconv.ErrRange), err == nil && (int64(x) != n || (x < 0) != (n < 0)):
		return errors.New("the number is too large or too small")
	case err != nil || strconv.FormatInt(n, 10) != text:
		return errors.New("a whole number in plain digits is expected, such as 30")
	}
	*w.value = x
	return nil
}

// String implements pflag.Value.
func (w wholeFlag[T]) String() string {
	if w.value == nil {
		return "0"
	}
	return strconv.FormatInt(int64(*w.value), 10)
}

// Type implements pflag.Value. It returns the word shown in the help.
func (w wholeFlag[T]) Type() string { return "int" }

// amountFlag is a flag for an amount: 640 means cents, and 6.40 means the main unit of the
// currency.
type amountFlag struct{ cents *int64 }

func amountVar(f *pflag.FlagSet, p *int64, name, usage string) { f.Var(amountFlag{p}, name, usage) }

// Set implements pflag.Value.
func (a amountFlag) Set(text string) error {
	if strings.HasPrefix(text, "-") {
		return errors.New("an amount cannot be negative")
	}
	if !strings.Contains(text, ".") {
		err := wholeFlag[int64]{a.cents}.Set(text)
		if _, parsed := strconv.ParseInt(text, 10, 64); errors.Is(parsed, strconv.ErrSyntax) {
			return errors.New("an amount is expected, such as 6.40, or 640 in cents")
		}
		return err
	}
	whole, part, _ := strings.Cut(text, ".")
	if len(part) != 2 || strings.HasPrefix(whole, "+") {
		return errors.New("an amount with a point has two digits after it, such as 6.40; without one it is in cents")
	}
	var units, cents int64
	if err := errors.Join(wholeFlag[int64]{&units}.Set(whole), wholeFlag[int64]{&cents}.Set(strings.TrimPrefix(part, "0"))); err != nil || units < 0 || units > 1<<40 || cents < 0 {
		return errors.New("an amount is expected, such as 6.40, or 640 in cents")
	}
	*a.cents = 100*units + cents
	return nil
}

// String implements pflag.Value.
func (a amountFlag) String() string { return wholeFlag[int64]{a.cents}.String() }

// Type implements pflag.Value. It returns the word shown in the help.
func (amountFlag) Type() string { return "amount" }
