package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// eachFlag calls visit for every flag of a command and its subcommands.
func eachFlag(c *cobra.Command, visit func(path string, f *pflag.Flag)) {
	c.LocalFlags().VisitAll(func(f *pflag.Flag) { visit(c.CommandPath(), f) })
	for _, sub := range c.Commands() {
		eachFlag(sub, visit)
	}
}

// 010 cents are 10, and not 8.
func TestNoNumberOfAFlagIsReadAsOctal(t *testing.T) {
	seen := 0
	eachFlag((&app{}).root(), func(path string, f *pflag.Flag) {
		if kind := f.Value.Type(); !strings.Contains(kind, "int") || strings.Contains(kind, "string") {
			return
		}
		seen++
		for _, text := range []string{"010", "0x10", "1_000", "0b1", "1e3", "+5", " 5", "", "99999999999999999999"} {
			if err := f.Value.Set(text); err == nil {
				t.Errorf("%s --%s takes %q, as %s: use wholeVar", path, f.Name, text, f.Value)
			}
		}
		if err := f.Value.Set("60"); err != nil || f.Value.String() != "60" {
			t.Errorf("%s --%s 60: %v, %s", path, f.Name, err, f.Value)
		}
	})
	if seen < 10 {
		t.Errorf("only %d flags have numbers", seen)
	}
}

func TestANumberOfAFlagFitsItsType(t *testing.T) {
	var n uint64
	if err := (wholeFlag[uint64]{&n}).Set("-1"); err == nil {
		t.Errorf("-1 is %d", n)
	}
	var i int
	if err := (wholeFlag[int]{&i}).Set("-1"); err != nil || i != -1 {
		t.Errorf("-1: %v %d", err, i)
	}
}

func TestAnAmountWithAPointIsInDollars(t *testing.T) {
	for text, want := range map[string]int64{"640": 640, "6.40": 640, "0.05": 5, "0.00": 0, "12.09": 1209} {
		var cents int64
		if err := (amountFlag{&cents}).Set(text); err != nil || cents != want {
			t.Errorf("%s: %d, %v", text, cents, err)
		}
	}
	for _, text := range []string{"", "6.4", "6.400", ".40", "-6.40", "+6.40", "6,40", "1e3", "6.-4", "6.4x", "0x6.40", "9999999999999.00"} {
		var cents int64
		if err := (amountFlag{&cents}).Set(text); err == nil {
			t.Errorf("%q is taken for %d", text, cents)
		}
	}
}

// A person who reads a price of 3.00 would take --max 3 for three dollars.
func TestASmallCeilingHasAPoint(t *testing.T) {
	for text, refused := range map[string]bool{"3": true, "99": true, "3.00": false, "0.03": false, "100": false, "0": false} {
		var cents *int64
		if err := (ceilingFlag{cents: &cents}).Set(text); (err != nil) != refused {
			t.Errorf("--max %s: %v", text, err)
		}
		if err := (ceilingFlag{&cents, true}).Set(text); err != nil {
			t.Errorf("--max-total-cents %s: %v", text, err)
		}
	}
}
