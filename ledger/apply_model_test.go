package ledger

import (
	"fmt"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"perennial/ledger/fact"
)

// model is the books in plain numbers, computed independently.
type model struct {
	wallet, charged, refunded, suspense int64
	facts                               []fact.Fact
	n                                   int
	open                                []unresolvedLine
}

type unresolvedLine struct {
	operation, proxy string
	cents            int64
}

func (m *model) next(prefix string) string {
	m.n++
	return fmt.Sprintf("%s%d/1", prefix, m.n)
}

func (m *model) add(facts ...fact.Fact) { m.facts = append(m.facts, facts...) }

func (m *model) order(t *rapid.T) {
	id := m.next("o")
	m.add(accepted(fact.KindOrder, id), sending(id, 1), fact.OrderAccepted{Ref: ref(id), OrderNo: "no of " + id, NextAt: noon})
	total := rapid.Int64Range(1, 5000).Draw(t, "total")
	returned := rapid.Int64Range(0, total).Draw(t, "returned")
	m.charged, m.wallet = m.charged+total, m.wallet-total
	if rapid.Bool().Draw(t, "booked early") {
		m.add(fact.OrderProgressed{OrderState: orderState(id, "procuring", total, 0), NextAt: noon})
		total = 0
	}
	if returned == 0 {
		m.add(fact.OrderDelivered{OrderState: orderState(id, "completed", total, 0)})
		return
	}
	m.refunded, m.wallet = m.refunded+returned, m.wallet+returned
	m.add(fact.OrderRefunded{OrderState: orderState(id, "refunded", total, returned), RefundedAt: noon})
}

func (m *model) orderByPerson(t *rapid.T) {
	id := m.next("o")
	booked := rapid.Int64Range(0, 900).Draw(t, "booked")
	truth := rapid.Int64Range(0, 900).Draw(t, "truth")
	m.add(accepted(fact.KindOrder, id), sending(id, 1), fact.OrderAccepted{Ref: ref(id), OrderNo: "no of " + id, NextAt: noon},
		fact.OrderProgressed{OrderState: orderState(id, "odd", booked, 0), NextAt: noon}, fact.OperationReview{Ref: ref(id), Reason: "odd"})
	m.charged, m.refunded, m.wallet = m.charged+max(booked, truth), m.refunded+max(booked-truth, 0), m.wallet-truth
	outcome := "charged"
	if truth == 0 {
		outcome = "not_charged"
	}
	m.add(resolved(id, "", outcome, truth))
}

func (m *model) renewal(t *rapid.T) {
	id := m.next("r")
	n := rapid.IntRange(1, 4).Draw(t, "proxies")
	var ids []string
	var items []fact.Line
	var unresolved []unresolvedLine
	for i := range n {
		proxy := fmt.Sprintf("px_%s_%d", id, i)
		cents := rapid.Int64Range(0, 400).Draw(t, "price")
		ids = append(ids, proxy)
		switch state := rapid.SampledFrom([]string{"succeeded", "failed", "unresolved"}).Draw(t, "state"); state {
		case "failed":
			items = append(items, line(proxy, state, cents, cents))
			m.refunded, m.wallet = m.refunded+cents, m.wallet+cents
		case "unresolved":
			m.suspense += cents
			unresolved = append(unresolved, unresolvedLine{id, proxy, cents})
			fallthrough
		default:
			items = append(items, line(proxy, state, cents, 0))
		}
		m.charged, m.wallet = m.charged+cents, m.wallet-cents
	}
	m.add(accepted(fact.KindRenewal, id, ids...), sending(id, 1))
	all := lines(items...)
	if len(unresolved) == n || rapid.Bool().Draw(t, "manual") && len(unresolved) > 0 {
		m.add(fact.OperationReview{Ref: ref(id), Reason: "pending", Ambiguous: true, Settlement: &all})
	} else {
		m.add(settled(id, "partial", items...))
	}
	m.open = append(m.open, unresolved...)
}

func (m *model) person(t *rapid.T) {
	if len(m.open) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.open)-1).Draw(t, "line")
	x := m.open[i]
	m.open = append(m.open[:i:i], m.open[i+1:]...)
	truth := rapid.Int64Range(0, 600).Draw(t, "truth")
	outcome := "charged"
	if rapid.Bool().Draw(t, "not charged") {
		outcome, truth = "not_charged", 0
	}
	m.suspense -= x.cents
	m.charged, m.refunded = m.charged+max(truth-x.cents, 0), m.refunded+max(x.cents-truth, 0)
	m.wallet += x.cents - truth
	m.add(resolved(x.operation, x.proxy, outcome, truth))
}

func (m *model) elsewhere(t *rapid.T) {
	cents := rapid.Int64Range(1, 3000).Draw(t, "cents")
	if rapid.Bool().Draw(t, "top-up") {
		m.wallet += cents
		m.add(fact.LedgerRecorded{Movement: "top-up", AmountCents: cents, By: "ada", Reason: "card"})
		return
	}
	m.wallet -= cents
	m.add(fact.LedgerRecorded{Movement: "external", AmountCents: cents, By: "ada", Reason: "shop"})
}

func TestAnyHistoryGivesTheBalancesThatPlainArithmeticGives(t *testing.T) {
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		opening := rapid.Int64Range(0, 50_000).Draw(rt, "opening")
		m := &model{wallet: opening}
		m.add(opened(opening))
		steps := []func(*rapid.T){m.order, m.orderByPerson, m.renewal, m.renewal, m.person, m.person, m.elsewhere}
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			rapid.SampledFrom(steps).Draw(rt, "step")(rt)
		}
		b := openBook(t, filepath.Join(dir, fmt.Sprintf("%d.db", n)))
		defer func() { _ = b.Close() }()
		if err := b.tryAdd(m.facts...); err != nil {
			rt.Fatal(err)
		}
		b.identity()
		x := b.balance()
		if x.WalletCents != m.wallet || x.ChargedCents != m.charged || x.RefundedCents != m.refunded || x.SuspenseCents != m.suspense {
			rt.Fatalf("the book says %+v\nand by hand it is wallet %d charged %d refunded %d suspense %d", x, m.wallet, m.charged, m.refunded, m.suspense)
		}
		var charged, refunded int64
		check(t, b.read.QueryRowContext(t.Context(), `SELECT coalesce(sum(charged_cents), 0), coalesce(sum(refunded_cents), 0) FROM v_operations`).Scan(&charged, &refunded))
		if charged != m.charged || refunded != m.refunded {
			rt.Fatalf("the operations sum to %d charged and %d refunded, the book to %d and %d", charged, refunded, m.charged, m.refunded)
		}
		if _, err := b.Verify(t.Context()); err != nil {
			rt.Fatal(err)
		}
	})
}
