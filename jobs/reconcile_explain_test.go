package jobs

import (
	"strings"
	"testing"

	"perennial/jobs/decide"
	"perennial/jobs/reconcile"
	"perennial/ledger/fact"
	"perennial/upstream"
)

// Each kind of finding explains only certain differences of 500 cents.
func TestAWalletIsExplainedOnlyByWhatFitsItsDifference(t *testing.T) {
	for _, test := range []struct {
		kind       string
		cents      int64
		down, up   bool
		whenKnown  string
		onlyAProxy bool
	}{
		{decide.FindingOutside, 500, true, false, "-5.00 USD", false}, {decide.FindingOutside, 501, false, false, "", false}, {decide.FindingOutside, -50, false, true, "0.50 USD", false},
		{decide.FindingTotal, -300, false, true, "3.00 USD", false}, {decide.FindingTotal, 300, true, false, "-3.00 USD", false}, {decide.FindingCharge, 200, true, false, "-2.00 USD", false},
		{decide.FindingRefund, 200, false, true, "2.00 USD", false}, {decide.FindingRefund, -200, true, false, "-2.00 USD", false}, {decide.FindingRefund, 600, false, false, "", false},
		{decide.FindingMissing, -300, false, true, "3.00 USD", false}, {decide.FindingMissing, 0, false, false, "", false},
		{decide.FindingSums, 10, true, false, "-0.10 USD", false}, {decide.FindingNotMoved, 300, false, true, "3.00 USD", false},
		{decide.FindingRenewed, -300, true, false, "-3.00 USD", true}, {decide.FindingRenewed, 0, true, false, "amount not known", true}, {decide.FindingRenewed, -900, false, false, "", true},
		{decide.FindingOrderCurrency, 900, true, false, "amount not known", false}, {decide.FindingRefundCurrency, 900, false, true, "amount not known", false},
		{decide.FindingRefundAmount, 900, true, true, "amount not known", false}, {decide.FindingDecimal, 0, false, false, "", false},
	} {
		for _, d := range []int64{-500, 500} {
			book := int64(10_000)
			f := reconcile.Finding{Kind: test.kind, AmountCents: test.cents, OrderNo: "ord_1"}
			if test.onlyAProxy {
				f.OrderNo, f.ProxyID = "", "px_1"
			}
			p := &reconcile.Pass{Reconciler: reconcile.NewReconciler(reconcile.ReconcilerConfig{Binding: fact.Binding{Currency: "USD"}}), Reconciliation: reconcile.Reconciliation{Findings: []reconcile.Finding{f}}}
			p.Wallet = reconcile.WalletCheck{ProviderCents: book + d, BookCents: book, LowCents: &book, HighCents: &book}
			text := p.CouldExplain(d)
			want := d < 0 && test.down || d > 0 && test.up
			if strings.Contains(text, f.About()) != want || want && !strings.Contains(text, test.whenKnown) {
				t.Errorf("%s of %d, the wallet by %d: %q", test.kind, test.cents, d, text)
			}
		}
	}
}

// Operations in progress may be part of the difference, so the far end of the range counts.
func TestAnIntervalLeavesRoomForALargerExplanation(t *testing.T) {
	low, high := int64(9_000), int64(10_000)
	f := reconcile.Finding{Kind: decide.FindingOutside, AmountCents: 1_200, OrderNo: "ord_1"}
	p := &reconcile.Pass{Reconciler: reconcile.NewReconciler(reconcile.ReconcilerConfig{Binding: fact.Binding{Currency: "USD"}}), Reconciliation: reconcile.Reconciliation{Findings: []reconcile.Finding{f}}}
	p.Wallet = reconcile.WalletCheck{ProviderCents: 8_700, LowCents: &low, HighCents: &high}
	if text := p.CouldExplain(-300); !strings.Contains(text, "ord_1") {
		t.Error(text)
	}
	p.Wallet.ProviderCents = 8_900
	if text := p.CouldExplain(-100); strings.Contains(text, "ord_1") {
		t.Error(text)
	}
}

func TestTrap24AWalletIsExplainedByARenewalElsewhere(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.listed()
	h.agrees()
	_, err := h.client.Renew(t.Context(), "by-hand", upstream.RenewRequest{ProxyIDs: []string{"px_2"}, DurationDays: 30})
	check(t, err)
	h.listed()
	if f := h.finds(decide.FindingWallet, -300); !strings.Contains(f.Explanation, "explained by proxy px_2 (outside_renewal") {
		t.Error(f.Explanation)
	}
}
