package cli

import (
	"errors"
	"fmt"
	"math"
	"perennial/cmd/perennial/internal/config"
	"perennial/jobs/inspect"
	"perennial/ledger/fact"
	"perennial/ledger/report"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// wholeFlag is a flag for a whole number in plain decimal digits. The flags of pflag itself read
// 010 as 8, 0x10 as 16 and 1_000 as 1000, which is dangerous for an amount of money.
type wholeFlag[T int | int64 | uint64] struct{ value *T }

func wholeVar[T int | int64 | uint64](f *pflag.FlagSet, p *T, name string, value T, usage string) {
	*p = value
	f.Var(wholeFlag[T]{p}, name, usage)
}

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

func (w wholeFlag[T]) String() string {
	if w.value == nil {
		return "0"
	}
	return strconv.FormatInt(int64(*w.value), 10)
}

func (w wholeFlag[T]) Type() string { return "int" }

type atLeastOne struct{ n *int }

func (v atLeastOne) Set(text string) error {
	var n int
	if err := (wholeFlag[int]{&n}).Set(text); err != nil || n < 1 {
		return errors.New("must be a whole number, 1 or more")
	}
	*v.n = n
	return nil
}

func (v atLeastOne) String() string {
	if v.n == nil || *v.n == math.MaxInt { // MaxInt means no limit
		return ""
	}
	return strconv.Itoa(*v.n)
}

func (v atLeastOne) Type() string { return "int" }

// limitFlag adds the flag --limit, -n, for the maximum number of rows. The parameter most is the
// default.
func limitFlag(c *cobra.Command, limit *int, most int, usage string) {
	*limit = most
	c.Flags().VarP(atLeastOne{limit}, "limit", "n", usage)
}

// amountFlag is a flag for an amount: 640 means cents, and 6.40 means the main unit of the
// currency.
type amountFlag struct{ cents *int64 }

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

func (a amountFlag) String() string { return wholeFlag[int64]{a.cents}.String() }

func (amountFlag) Type() string { return "amount" }

// givenAmount is an amountFlag that distinguishes an explicit 0 from an absent flag, whose
// pointer is nil.
type givenAmount struct{ cents **int64 }

func (v givenAmount) Set(text string) error {
	*v.cents = new(int64)
	return amountFlag{*v.cents}.Set(text)
}

func (givenAmount) String() string { return "0" }

func (givenAmount) Type() string { return "amount" }

// ceilingFlag is the value of --max. It refuses a small number, because the user may mean the
// main unit of the currency.
type ceilingFlag struct {
	cents   **int64
	inCents bool // the flag's name says that the amount is in cents
}

func (v ceilingFlag) Set(text string) error {
	var n int64
	err := amountFlag{&n}.Set(text)
	if err == nil && !v.inCents && n > 0 && n < 100 && !strings.Contains(text, ".") {
		return fmt.Errorf("an amount without a point is in cents: write %d.00, or %s for %[1]d cents", n, fact.Amount(n, ""))
	}
	*v.cents = &n
	return err
}

func (v ceilingFlag) String() string { return "" }

func (v ceilingFlag) Type() string { return "amount" }

// span is a flag for a duration, which the user may give in days.
type span struct{ of *time.Duration }

func (v span) Set(text string) error {
	of, err := config.ParseSpan(text)
	if err != nil || of <= 0 {
		return errors.New("a time over 0 is expected, such as 3d, 72h or 15m")
	}
	*v.of = of
	return nil
}

func (v span) String() string {
	if v.of == nil || *v.of == 0 {
		return ""
	}
	return v.of.String()
}

func (v span) Type() string { return "time" }

// instantOrSpan parses a flag that is either a time or a duration from now. It returns the
// time in RFC 3339 format.
func instantOrSpan(flag, text string) (string, error) {
	if d, err := config.ParseSpan(text); err == nil && d > 0 {
		return time.Now().Add(d).UTC().Format(time.RFC3339), nil
	}
	if _, err := time.Parse(time.RFC3339, text); err != nil {
		return "", usage("--%s %s: use an instant such as 2026-12-01T06:00:00Z, or a time from now such as 8h or 3d", flag, text)
	}
	return text, nil
}

func dayOrInstant(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339Nano} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UTC(), nil
		}
	}
	return time.Time{}, usage("%s is %q: write a day as 2026-11-01 or an instant as 2026-11-01T00:00:00Z", flag, text)
}

func period(from, to string) (p report.Period, err error) {
	if p.From, err = dayOrInstant("--from", from); err != nil {
		return p, err
	}
	if p.To, err = dayOrInstant("--to", to); err != nil {
		return p, err
	}
	if !p.To.IsZero() && !p.From.Before(p.To) {
		return p, usage("--from %s is not before --to %s", from, to)
	}
	return p, nil
}

const askedFor = "asked for on the command line"

// signed adds the flags --by and --reason to c, and returns c. The parameter why is the default
// reason. If why is "", a reason is required, and the command itself must check for it.
func signed(c *cobra.Command, by, reason *string, why string) *cobra.Command {
	c.Flags().StringVar(by, "by", operator(), "your name, which the audit shows")
	usage := "why"
	if why == "" {
		usage = "why (required)"
	}
	c.Flags().StringVar(reason, "reason", why, usage)
	return c
}

func asFlag(c *cobra.Command, as *string) {
	c.Flags().StringVar(as, "as", "", "what the ID refers to if a command and an operation share it: command or operation")
}

func idOf(as string) (inspect.As, error) {
	switch of := inspect.As(as); of {
	case "", inspect.AsCommand, inspect.AsOperation:
		return of, nil
	}
	return "", usage("--as is %q: use command or operation", as)
}
