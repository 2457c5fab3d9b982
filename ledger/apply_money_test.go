package ledger

import (
	"testing"
	"time"

	"perennial/ledger/fact"
	"perennial/ledger/tables"
)

// identity checks what always holds, whatever happened.
func (b *book) identity() {
	b.t.Helper()
	x := b.balance()
	if x.WalletCents != x.FundingCents-x.ExternalCents-(x.ChargedCents-x.RefundedCents) {
		b.t.Fatalf("the wallet does not follow from the book: %+v", x)
	}
	if x.SuspenseCents < 0 || x.RefundedCents > x.ChargedCents {
		b.t.Fatalf("more was returned than was taken: %+v", x)
	}
	var seq, sum int64
	err := b.read.QueryRowContext(b.t.Context(), `SELECT coalesce(max(seq), 0), coalesce(max(total), 0) FROM
		(SELECT seq, sum(amount_cents) AS total FROM v_postings GROUP BY seq HAVING sum(amount_cents) <> 0)`).Scan(&seq, &sum)
	check(b.t, err)
	if seq != 0 {
		b.t.Fatalf("the postings of fact %d sum to %d", seq, sum)
	}
}

func TestTrap15TheBookHoldsAfterEveryFact(t *testing.T) {
	b := newBook(t)
	for _, f := range history() {
		b.add(f)
		b.identity()
	}
	got := b.balance()
	want := tables.Balance{
		Account: "main", Currency: "USD", FundingCents: 105_000, ExternalCents: 700,
		// o1 900, o2 500, o3 300, o4 400; r1 610, r2 900, r3 300, r4 900, r5 300, r6 300, r7 600, r8 610, r10 300.
		ChargedCents: 900 + 500 + 300 + 400 + 610 + 900 + 300 + 900 + 300 + 300 + 600 + 610 + 300,
		// o2 500, o4 400; r2 300 and 50 of the resolved line, r3 300, r4 300.
		RefundedCents: 500 + 400 + 300 + 50 + 300 + 300,
		SuspenseCents: 310, Head: got.Head,
	}
	want.WalletCents = want.FundingCents - want.ExternalCents - want.ChargedCents + want.RefundedCents
	if got != want {
		t.Fatalf("got  %+v\nwant %+v", got, want)
	}
}

func TestTrap16AnAllFailedRenewalIsAChargeAndItsRefund(t *testing.T) {
	b := newBook(t)
	b.add(opened(1000), accepted(fact.KindRenewal, "r/0001", "px_1"), sending("r/0001", 1), settled("r/0001", "failed", line("px_1", "failed", 300, 300)))
	if x := b.balance(); x.ChargedCents != 300 || x.RefundedCents != 300 || x.WalletCents != 1000 {
		t.Fatalf("%+v", x)
	}
	if o := b.operation("r/0001"); o.State != fact.StateFailed || o.ChargedCents != 300 || o.RefundedCents != 300 {
		t.Fatalf("%+v", o)
	}
	postings, err := b.Money.Postings(t.Context(), 2, 10)
	check(t, err)
	if len(postings) != 4 || postings[0].Account != "renewals" || postings[0].AmountCents != 300 || postings[0].ProxyID != "px_1" {
		t.Fatalf("%+v", postings)
	}
}

func TestTrap18AnUnresolvedLineIsInSuspenseAndKeepsItsProxy(t *testing.T) {
	b := newBook(t)
	b.add(opened(1000), accepted(fact.KindRenewal, "r/0001", "px_1", "px_2"), sending("r/0001", 1),
		settled("r/0001", "partial", line("px_1", "succeeded", 300, 0), line("px_2", "unresolved", 300, 0)))
	if x := b.balance(); x.SuspenseCents != 300 || x.WalletCents != 400 {
		t.Fatalf("%+v", x)
	}
	reviews, err := b.Operations.Reviews(t.Context())
	check(t, err)
	if len(reviews) != 1 || reviews[0].ProxyID != "px_2" {
		t.Fatalf("a person sees %+v", reviews)
	}
	if err := b.tryAdd(accepted(fact.KindRenewal, "s/0001", "px_2")); err == nil {
		t.Fatal("an unresolved proxy could be renewed again")
	}
	b.add(accepted(fact.KindRenewal, "s/0001", "px_1"))
	b.add(resolved("r/0001", "px_2", "not_charged", 0))
	if x := b.balance(); x.SuspenseCents != 0 || x.WalletCents != 700 || x.RefundedCents != 300 {
		t.Fatalf("after the answer: %+v", x)
	}
	b.add(accepted(fact.KindRenewal, "u/0001", "px_2"))
	b.identity()
}

func TestTrap09OneOpenRenewalAProxyWhateverItsExpiry(t *testing.T) {
	b := newBook(t)
	b.add(opened(1000), accepted(fact.KindRenewal, "r/0001", "px_1"))
	if err := b.tryAdd(accepted(fact.KindRenewal, "s/0001", "px_1")); err == nil {
		t.Fatal("two open renewals of one proxy")
	}
	var holder string
	check(t, b.Write(t.Context(), func(tx *Tx) (err error) { holder, err = tx.Claimant("px_1"); return err }))
	if holder != "r/0001" {
		t.Fatalf("held by %q", holder)
	}
	expiry := noon.Add(time.Hour)
	first := sending("r/0001", 1)
	first.Observed = map[string]time.Time{"px_1": expiry}
	b.add(first, settled("r/0001", "completed", line("px_1", "succeeded", 300, 0)))
	for at, want := range map[time.Time]bool{expiry: true, expiry.In(time.FixedZone("x", 3600)): true, expiry.Add(24 * time.Hour): false} {
		if got, err := b.Fleet.RenewedAt(t.Context(), "px_1", at); err != nil || got != want {
			t.Errorf("renewed at %s: %t %v", at, got, err)
		}
	}
	claimed, err := b.Operations.Claimed(t.Context())
	check(t, err)
	if len(claimed) != 0 {
		t.Fatalf("still claimed: %v", claimed)
	}
}

func TestARefundBeyondTheChargeIsRefusedByTheBook(t *testing.T) {
	b := newBook(t)
	b.add(opened(1000), accepted(fact.KindOrder, "o/1"), sending("o/1", 1), fact.OrderAccepted{Ref: ref("o/1"), OrderNo: "n", NextAt: noon})
	before := b.balance()
	if err := b.tryAdd(fact.OrderRefunded{OrderState: orderState("o/1", "refunded", 100, 101)}); err == nil {
		t.Fatal("more came back than was paid")
	}
	if err := b.tryAdd(fact.OrderProgressed{OrderState: orderState("o/1", "paid", -5, 0)}); err == nil {
		t.Fatal("a negative charge was booked")
	}
	if b.balance() != before {
		t.Fatal("a refused booking left something behind")
	}
}

func TestTheDayCountsWhatWasAndMayStillBeSpent(t *testing.T) {
	b := newBook(t)
	b.add(opened(10_000), accepted(fact.KindOrder, "o1/1"), sending("o1/1", 1), fact.OrderAccepted{Ref: ref("o1/1"), OrderNo: "n1", NextAt: noon},
		fact.OrderDelivered{OrderState: orderState("o1/1", "completed", 900, 0)})
	estimated := sending("o2/1", 1)
	estimated.EstimateCents = 500
	b.add(accepted(fact.KindOrder, "o2/1"), estimated)
	for _, test := range []struct {
		since  time.Time
		except string
		want   int64
	}{{noon, "", 1400}, {noon, "o2/1", 900}, {noon.Add(24 * time.Hour), "", 500}} {
		if got, err := b.Money.Committed(t.Context(), test.since, test.except); err != nil || got != test.want {
			t.Errorf("since %s without %q: %d, want %d (%v)", test.since, test.except, got, test.want, err)
		}
	}
}
