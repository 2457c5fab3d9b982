package decide

import (
	"strings"
	"testing"
	"time"

	"perennial/ledger/fact"
)

func TestTheTableOfCeilingsAndLimits(t *testing.T) {
	priced := func(of string, cents int64) Price { return Price{Of: of, Cents: fact.Known(cents)} }
	one, two := []Price{priced("a", 300)}, []Price{priced("a", 300), priced("b", 300)}
	none, half := []Price{{Of: "a"}}, []Price{priced("a", 300), {Of: "b"}}
	presumed := renewalOf("a", "b")
	presumed.Ambiguous = 1
	for _, row := range []struct {
		name  string
		op    Operation
		h     Priced
		want  string
		cents int64
	}{
		{"no price is asked for", order(), Priced{}, "", 0},
		{"at the ceiling", order(), Priced{Prices: two, CeilingCents: 600}, "", 600},
		{"over the ceiling", order(), Priced{Prices: two, CeilingCents: 599}, "command.rejected", 0},
		{"over the ceiling with what the others cost", order(), Priced{Prices: one, CeilingCents: 600, CommandCents: 301}, "command.rejected", 0},
		{"over the ceiling behind a restore", presumed, Priced{Prices: two, CeilingCents: 599}, "operation.review", 0},
		{"not offered", order(), Priced{Prices: []Price{priced("a", 1), {Of: "b", NotOffered: true}}, CeilingCents: 600}, "command.rejected", 0},
		{"a free offer", order(), Priced{Prices: []Price{priced("a", 0), priced("b", 0)}, CeilingCents: 600}, "", 0},
		{"one of two without a price under a ceiling", renewalOf("a", "b"), Priced{Prices: half, CeilingCents: 900}, "command.rejected: b, a", 0},
		{"one of two without a price under a limit", renewalOf("a", "b"), Priced{Prices: half, LimitCents: 900}, "command.rejected: b, a", 0},
		{"one of two without a price behind a restore", presumed, Priced{Prices: half, CeilingCents: 900}, "operation.review", 0},
		{"one of two without a price behind a restore, under a limit", presumed, Priced{Prices: half, LimitCents: 900}, "command.held", 0},
		{"two of the command without a price and an outcome", renewalOf("a"), Priced{Prices: none, CeilingCents: 900, UnpricedSiblings: 2}, "", 0},
		{"three of them", renewalOf("a"), Priced{Prices: none, CeilingCents: 900, UnpricedSiblings: 3}, "command.rejected", 0},
		{"one of two without a price, released", renewalOf("a", "b"), Priced{Prices: half, LimitCents: 900, ReleasedBefore: true}, "", 0},
		{"one of two at the price of the first", renewalOf("a", "b"), Priced{Prices: half, Fallback: fact.Known(400), CeilingCents: 900}, "", 700},
		{"one alone without a price", renewalOf("a"), Priced{Prices: none, CeilingCents: 900, LimitCents: 900}, "", 0},
		{"one alone without a price behind another", renewalOf("a"), Priced{Prices: none, LimitCents: 900, UnpricedUnderWay: 1}, "operation.waiting", 0},
		{"one alone without a price behind two in review", renewalOf("a"), Priced{Prices: none, LimitCents: 900, UnpricedOpen: 2}, "", 0},
		{"one alone without a price behind three in review", renewalOf("a"), Priced{Prices: none, LimitCents: 900, UnpricedOpen: 3}, "operation.waiting", 0},
		{"a known price beside an unknown one", renewalOf("a"), Priced{Prices: one, LimitCents: 900, UnpricedUnderWay: 1}, "", 300},
		{"at the limit", order(), Priced{Prices: one, LimitCents: 900, SpentCents: 600}, "", 300},
		{"over the limit", order(), Priced{Prices: one, LimitCents: 900, SpentCents: 601}, "command.held", 0},
		{"an order over the limit of a whole day", order(), Priced{Prices: one, LimitCents: 299}, "command.held", 0},
		{"one of two fits into the day", renewalOf("a", "b"), Priced{Prices: two, LimitCents: 900, SpentCents: 600}, "command.rejected: a, b", 0},
		{"one of two fits, behind a restore", presumed, Priced{Prices: two, LimitCents: 900, SpentCents: 600}, "command.held", 0},
		{"the second of two fits into the day", renewalOf("a", "b"), Priced{Prices: []Price{priced("a", 400), priced("b", 300)}, LimitCents: 900, SpentCents: 600}, "command.rejected: b, a", 0},
		{"none of two fits into the day", renewalOf("a", "b"), Priced{Prices: two, LimitCents: 900, SpentCents: 601}, "command.held", 0},
		{"dearer than the limit of a whole day", renewalOf("a"), Priced{Prices: one, LimitCents: 299}, "command.rejected", 0},
		{"dearer than a whole day beside one that waits", renewalOf("a", "b"), Priced{Prices: []Price{priced("a", 901), priced("b", 300)}, LimitCents: 900, SpentCents: 700}, "command.rejected: b, a", 0},
		{"dearer than a whole day, released", renewalOf("a"), Priced{Prices: one, LimitCents: 299, Released: true}, "", 300},
		{"over the limit, released", order(), Priced{Prices: one, LimitCents: 900, SpentCents: 601, Released: true}, "", 300},
		{"over the limit, released before", order(), Priced{Prices: one, LimitCents: 900, SpentCents: 601, ReleasedBefore: true}, "", 300},
		{"over the limit behind a restore", presumed, Priced{Prices: two, LimitCents: 900, SpentCents: 601}, "command.held", 0},
	} {
		row.h.Now, row.h.Tomorrow = noon, noon.Add(12*time.Hour)
		row.h.LeftOut = []fact.Fact{fact.ProxySkipped{}}
		d, want := Decide(row.op, row.h), strings.TrimSuffix("proxy.skipped, "+row.want, ", ")
		if f, ok := d.Facts[len(d.Facts)-1].(fact.CommandRejected); ok && len(f.SplitInto) > 0 {
			want, parts, _ := strings.Cut(want, ": ")
			if got := f.SplitInto[0].ProxyIDs[0] + ", " + f.SplitInto[1].ProxyIDs[0]; got != parts || f.Code != fact.CodeDivided || said(d) != want+" split" {
				t.Errorf("%s: divided into %s: %s: %+v", row.name, got, said(d), f)
			}
			continue
		}
		if row.want == "operation.review" {
			want = row.want
		}
		if said(d) != want || d.Send != (row.want == "") || d.Estimate.Or(0) != row.cents {
			t.Errorf("%s: %s: %+v", row.name, said(d), d)
		}
	}
}

func TestTrap52AnUnknownPriceIsNeverShownAsNone(t *testing.T) {
	h := Priced{Prices: []Price{{Of: "a"}}, LimitCents: 900, SpentCents: 901, Tomorrow: noon.Add(12 * time.Hour)}
	f, ok := Decide(renewalOf("a"), h).Facts[0].(fact.CommandHeld)
	if !ok || !strings.Contains(f.Reason, "an unknown amount") || f.Until == nil || !f.Until.Equal(h.Tomorrow) {
		t.Errorf("%+v", f)
	}
}

// Under a daily limit, the next operation of unknown price waits until the cost of the
// previous one is known.
func TestTrap52UnknownPricesGoOneAfterTheOther(t *testing.T) {
	h := Priced{Moment: Moment{Now: noon}, LimitCents: 700, SpentCents: 100, UnpricedUnderWay: 1}
	d, stop := overDailyLimit(order(), h, fact.Sum{Cents: 300, Lacks: 1})
	if got := said(d); !stop || got != "operation.waiting" {
		t.Errorf("while another is in progress: %s, stop %t", got, stop)
	}
	if _, stop := overDailyLimit(order(), h, fact.Sum{Cents: 300}); stop {
		t.Error("one of known price waits")
	}
	h.UnpricedUnderWay = 0
	if _, stop := overDailyLimit(order(), h, fact.Sum{Cents: 300, Lacks: 1}); stop {
		t.Error("one alone waits")
	}
}
