package ledger

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"perennial/ledger/fact"
	"perennial/ledger/tables"
)

// whole adds a renewal that an operator answers as a whole.
func (m *model) whole(t *rapid.T) {
	id := m.next("r")
	truth := rapid.Int64Range(1, 900).Draw(t, "truth")
	m.add(accepted(fact.KindRenewal, id, "px_"+id+"_a", "px_"+id+"_b"), sending(id, 1), fact.OperationReview{Ref: ref(id), Reason: "x", Ambiguous: true})
	m.charged, m.wallet = m.charged+truth, m.wallet-truth
	m.add(resolved(id, "", "charged", truth))
}

// onAnOrder records money on an order of this ledger, or on one made elsewhere.
func (m *model) onAnOrder(t *rapid.T) {
	no := rapid.SampledFrom([]string{"no of o1/1", "no of o2/1", "no of o3/1", "ord_elsewhere", ""}).Draw(t, "order")
	kind := rapid.SampledFrom([]string{"external", "top-up"}).Draw(t, "kind")
	m.add(fact.LedgerRecorded{Movement: kind, AmountCents: rapid.Int64Range(1, 3000).Draw(t, "cents"), OrderNo: no, By: "ada", Reason: "x"})
}

// labelled gives the accepted commands labels with many names, with one, or none.
func labelled(t *rapid.T, facts []fact.Fact) []fact.Fact {
	facts = slices.Clone(facts)
	for i, f := range facts {
		c, ok := f.(fact.CommandAccepted)
		if !ok {
			continue
		}
		c.Labels = map[string]string{}
		for _, name := range []string{"team", "ticket"} {
			if v := rapid.SampledFrom([]string{"", "a", "b", "ü=x"}).Draw(t, name); v != "" {
				c.Labels[name] = v
			}
		}
		facts[i] = c
	}
	return facts
}

// spentOf returns what the postings show as spent, including recorded money.
func spentOf(t *testing.T, b *book) (cents int64) {
	t.Helper()
	all, err := b.Money.Postings(t.Context(), 0, 100_000)
	check(t, err)
	for _, p := range all {
		if slices.Contains([]string{"orders", "renewals", "suspense", "external"}, p.Account) || p.Account == "funding" && p.OrderNo != "" {
			cents += p.AmountCents
		}
	}
	return cents
}

func TestTheSumsByEverythingAreTheAccountsTotal(t *testing.T) {
	dir, n := t.TempDir(), 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		m := &model{}
		m.add(opened(50_000))
		steps := []func(*rapid.T){m.order, m.orderByPerson, m.renewal, m.person, m.elsewhere, m.whole, m.onAnOrder, m.onAnOrder}
		for range rapid.IntRange(0, 25).Draw(rt, "steps") {
			rapid.SampledFrom(steps).Draw(rt, "step")(rt)
		}
		hours := time.Duration(0)
		b := bookAt(t, filepath.Join(dir, fmt.Sprintf("%d.db", n)), func() time.Time { hours += 5 * time.Hour; return noon.Add(hours) })
		defer func() { _ = b.Close() }()
		b.add(labelled(rt, m.facts)...)
		limit := rapid.SampledFrom([]int{1, 3, 1000}).Draw(rt, "limit")
		want := spentOf(t, b)
		for by := range tables.TotalsBy {
			all, err := b.Money.TotalsBy(t.Context(), by, limit)
			check(t, err)
			sums := map[string]int64{}
			for _, x := range all {
				sums[x.Name] += x.NetCents
			}
			for name, sum := range sums {
				if sum != want && (by != "label" || name != "" || len(sums) == 1) {
					rt.Fatalf("by %s %s the rows sum to %d and the postings to %d: %+v", by, name, sum, want, all)
				}
			}
			if len(sums) == 0 && want != 0 {
				rt.Fatalf("by %s there is no row of %d", by, want)
			}
		}
	})
}

func TestRecordedMoneyCountsForItsOrderAndLabels(t *testing.T) {
	b := keptBook(t)
	b.add(fact.LedgerRecorded{Movement: "external", AmountCents: 70, OrderNo: "no of o1/1", By: "ada", Reason: "x"},
		fact.LedgerRecorded{Movement: "top-up", AmountCents: 20, OrderNo: "no of o1/1", By: "ada", Reason: "x"},
		fact.LedgerRecorded{Movement: "external", AmountCents: 33, OrderNo: "ord_elsewhere", By: "ada", Reason: "x"})
	for by, want := range map[string]map[string]int64{
		"order": {"no of o1/1": 50, "ord_elsewhere": 33, "(no order)": 820}, "label": {"ticket=OPS-7": 50, "(without ticket)": 853}, "day": {"2026-11-21": 903},
		"ip": {"(no single ip)": 903}, "renewal": {"(no renewal)": 903},
	} {
		all, err := b.Money.TotalsBy(t.Context(), by, 1000)
		check(t, err)
		for _, x := range all {
			if x.RecordedCents != want[x.Subject] || x.Rest != strings.HasPrefix(x.Subject, "(") || (x.Zone == "UTC") != (by == "day") {
				t.Errorf("%s: %+v", by, x)
			}
			delete(want, x.Subject)
		}
		if len(want) > 0 {
			t.Errorf("%s: no row of %v", by, want)
		}
	}
}
