package ledger

import (
	"context"
	"testing"
	"time"

	"perennial/ledger/fact"
	"perennial/ledger/tables"
)

func (b *book) position() tables.Position {
	b.t.Helper()
	p, err := b.Money.Position(context.Background(), "main")
	check(b.t, err)
	return p
}

// Each state widens the wallet's range by exactly its unbooked amount.
func TestWhatIsOpenIsKnownByWhatMayMove(t *testing.T) {
	priced := sending("buy/1", 1)
	priced.EstimateCents = 700
	steps := []struct {
		name  string
		facts []fact.Fact
		want  []tables.Exposure
	}{
		{"accepted", []fact.Fact{opened(10_000), accepted(fact.KindOrder, "buy/1")}, nil},
		{"sending", []fact.Fact{priced}, []tables.Exposure{{OperationID: "buy/1", CommandID: "buy", Kind: fact.KindOrder, State: fact.StateSending, Charge: fact.Known(700)}}},
		{"never left", []fact.Fact{fact.OperationUnsent{Ref: ref("buy/1"), Attempt: 1, NextAt: noon}}, nil},
		{"sending again", []fact.Fact{sending("buy/1", 2)}, []tables.Exposure{{OperationID: "buy/1", CommandID: "buy", Kind: fact.KindOrder, State: fact.StateSending, Charge: fact.Known(700)}}},
		{"waiting, may have executed", []fact.Fact{fact.OperationWaiting{Ref: ref("buy/1"), Attempt: 2, Ambiguous: true, NextAt: noon}},
			[]tables.Exposure{{OperationID: "buy/1", CommandID: "buy", Kind: fact.KindOrder, State: fact.StateWaiting, Charge: fact.Known(700)}}},
		{"open, not booked", []fact.Fact{sending("buy/1", 3), fact.OrderAccepted{Ref: ref("buy/1"), Attempt: 3, OrderNo: "no of buy/1", NextAt: noon}},
			[]tables.Exposure{{OperationID: "buy/1", CommandID: "buy", Kind: fact.KindOrder, State: fact.StateOpen, OrderNo: "no of buy/1", Charge: fact.Known(700)}}},
		{"open, booked", []fact.Fact{fact.OrderProgressed{OrderState: orderState("buy/1", "paid", 600, 0), NextAt: noon}},
			[]tables.Exposure{{OperationID: "buy/1", CommandID: "buy", Kind: fact.KindOrder, State: fact.StateOpen, OrderNo: "no of buy/1", Charge: fact.Known(0), ReturnCents: 600}}},
		{"delivered", []fact.Fact{fact.OrderDelivered{OrderState: orderState("buy/1", "x", 0, 0)}}, nil},
		{"a renewal of unknown price", []fact.Fact{accepted(fact.KindRenewal, "keep/1", "px_1", "px_2"), sending("keep/1", 1)},
			[]tables.Exposure{{OperationID: "keep/1", CommandID: "keep", Kind: fact.KindRenewal, State: fact.StateSending, Unpriced: 2}}},
		{"partial, one line unresolved", []fact.Fact{settled("keep/1", "partial", line("px_1", "succeeded", 300, 0), line("px_2", "unresolved", 300, 0))},
			[]tables.Exposure{{OperationID: "keep/1", CommandID: "keep", Kind: fact.KindRenewal, State: fact.StatePartial, Charge: fact.Known(0), ReturnCents: 300}}},
		{"resolved", []fact.Fact{resolved("keep/1", "px_2", "charged", 300)}, nil},
		{"unresolved, its amount not known yet", []fact.Fact{accepted(fact.KindRenewal, "later/1", "px_4", "px_5"), sending("later/1", 1),
			settled("later/1", "partial", line("px_4", "succeeded", 300, 0), line("px_5", "unresolved", 0, 0))},
			[]tables.Exposure{{OperationID: "later/1", CommandID: "later", Kind: fact.KindRenewal, State: fact.StatePartial, Unpriced: 1}}},
		{"and charged", []fact.Fact{resolved("later/1", "px_5", "charged", 300)}, nil},
		{"review with an unknown outcome", []fact.Fact{accepted(fact.KindRenewal, "lost/1", "px_3"), sending("lost/1", 1), fact.OperationReview{Ref: ref("lost/1"), Attempt: 1, Reason: "lost", Ambiguous: true}},
			[]tables.Exposure{{OperationID: "lost/1", CommandID: "lost", Kind: fact.KindRenewal, State: fact.StateReview, Unpriced: 1}}},
	}
	b := newBook(t)
	for _, s := range steps {
		before := b.position().Head.Seq
		b.add(s.facts...)
		got := b.position()
		if len(got.Open) != len(s.want) || (len(s.want) > 0 && got.Open[0] != s.want[0]) {
			t.Errorf("%s: %+v, want %+v", s.name, got.Open, s.want)
		}
		moved, err := b.Money.MoneyMoved(t.Context(), before, got.Head.Seq)
		check(t, err)
		if quiet := s.name == "accepted" || s.name == "never left"; moved == quiet {
			t.Errorf("%s: moved %t", s.name, moved)
		}
	}
}

func TestARenewalsSumsAreToldThreeTimes(t *testing.T) {
	b := newBook(t)
	b.add(opened(10_000), accepted(fact.KindRenewal, "keep/1", "px_1", "px_2", "px_3"), sending("keep/1", 1),
		settled("keep/1", "partial", line("px_1", "succeeded", 300, 0), line("px_2", "failed", 300, 300), line("px_3", "unresolved", 300, 0)))
	differs := func() int64 {
		t.Helper()
		s, err := b.Money.RenewalSums(t.Context(), "keep/1")
		check(t, err)
		return s.Differ()
	}
	if d := differs(); d != 0 {
		t.Errorf("they differ by %d", d)
	}
	b.add(resolved("keep/1", "px_3", "charged", 250))
	if d := differs(); d != 0 {
		t.Errorf("after a person's answer they differ by %d", d)
	}
	for _, break1 := range []struct {
		sql  string
		want int64
	}{
		{`UPDATE lines SET charged_cents = charged_cents + 5 WHERE proxy_id = 'px_1'`, -5},
		{`UPDATE lines SET charged_cents = charged_cents - 5 WHERE proxy_id = 'px_1'`, 0},
		{`UPDATE operations SET charged_cents = charged_cents + 7`, 7},
		{`UPDATE operations SET charged_cents = charged_cents - 7, refunded_cents = refunded_cents - 9`, 9},
	} {
		if _, err := raw(t, b.path).Exec(break1.sql); err != nil {
			t.Fatal(err)
		}
		if d := differs(); d != break1.want {
			t.Errorf("%s: %d, want %d", break1.sql, d, break1.want)
		}
	}
}

func TestALineWithoutAnAmountAddsUpOnceAnswered(t *testing.T) {
	b := newBook(t)
	b.add(opened(10_000), accepted(fact.KindRenewal, "later/1", "px_4"), sending("later/1", 1),
		settled("later/1", "partial", line("px_4", "unresolved", 0, 0)), resolved("later/1", "px_4", "charged", 300))
	if s, err := b.Money.RenewalSums(t.Context(), "later/1"); err != nil || s.Differ() != 0 || s.ChargedCents != 300 {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestAnAmountForSeveralLinesIsNotSoughtInEach(t *testing.T) {
	b := newBook(t)
	b.add(opened(10_000), accepted(fact.KindRenewal, "keep/1", "px_1", "px_2"), sending("keep/1", 1),
		fact.OperationReview{Ref: ref("keep/1"), Attempt: 1, Reason: "lost", Ambiguous: true}, resolved("keep/1", "", "charged", 600))
	s, err := b.Money.RenewalSums(t.Context(), "keep/1")
	check(t, err)
	if s.ByLine || s.Differ() != 0 || s.ChargedCents != 600 {
		t.Errorf("%+v", s)
	}
}

func TestFindingsReportedAreThoseSinceTheLastAgreement(t *testing.T) {
	b := newBook(t)
	b.add(opened(10_000), fact.LedgerDiscrepancy{Finding: "wallet", AmountCents: 1, Explanation: "x"})
	if told, agreed, err := b.Money.PublishedDiscrepancies(t.Context()); err != nil || len(told) != 1 || agreed != nil {
		t.Errorf("%+v %+v %v", told, agreed, err)
	}
	b.add(fact.LedgerReconciled{WalletCents: 5, ProviderCents: 5, Quiet: true}, fact.LedgerDiscrepancy{Finding: "wallet", AmountCents: 1, Explanation: "x"}, fact.LedgerDiscrepancy{Finding: "wallet", AmountCents: 2, Explanation: "x"})
	told, agreed, err := b.Money.PublishedDiscrepancies(t.Context())
	check(t, err)
	if len(told) != 1 || told[0].AmountCents != 2 || agreed == nil || agreed.WalletCents != 5 || agreed.Seq != 3 || agreed.At.Before(noon) {
		t.Errorf("%+v %+v", told, agreed)
	}
	b.add(fact.LedgerReconciled{WalletCents: 7, ProviderCents: 7})
	before, after, err := b.Money.ReconciledAround(t.Context(), 4)
	check(t, err)
	if before == nil || before.WalletCents != 5 || after == nil || after.WalletCents != 7 {
		t.Errorf("%+v %+v", before, after)
	}
	if none, _, err := b.Money.ReconciledAround(t.Context(), 1); err != nil || none != nil {
		t.Errorf("%+v %v", none, err)
	}
}

func TestExternalMoneyIsKnownByItsOrder(t *testing.T) {
	b := newBook(t)
	b.add(opened(10_000), fact.LedgerRecorded{Movement: "external", AmountCents: 30, By: "ada", Reason: "x", OrderNo: "o1"},
		fact.LedgerRecorded{Movement: "external", AmountCents: 12, By: "ada", Reason: "x", OrderNo: "o1"}, fact.LedgerRecorded{Movement: "external", AmountCents: 5, By: "ada", Reason: "x"},
		fact.LedgerRecorded{Movement: "top-up", AmountCents: 2, By: "ada", Reason: "x", OrderNo: "o1"})
	sums, err := b.Money.RecordedFor(t.Context())
	check(t, err)
	if len(sums) != 1 || sums["o1"] != 40 {
		t.Errorf("%v", sums)
	}
	at, err := b.Money.OpenedAt(t.Context())
	if err != nil || at.Sub(noon) > time.Minute {
		t.Errorf("%s %v", at, err)
	}
	_, err = b.Verify(t.Context())
	check(t, err)
}
