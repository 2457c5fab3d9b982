package inspect

import (
	"strings"
	"testing"
	"time"

	"perennial/jobs/reconcile"
	"perennial/ledger/tables"
)

// The verdict gives the wallet's difference only if nothing else can explain it. The provider
// may show a charge ten minutes late, and a wrong amount could be booked.
func TestTheWalletsDifferenceHasOneExplanation(t *testing.T) {
	t.Parallel()
	own, other := tables.Exposure{OperationID: "a/0001"}, tables.Exposure{OperationID: "b/0001"}
	for name, c := range map[string]struct {
		change func(e *Evidence, w *reconcile.WalletReading, since *time.Duration)
		told   bool
	}{
		"alone":               {func(*Evidence, *reconcile.WalletReading, *time.Duration) {}, true},
		"never agreed":        {func(e *Evidence, _ *reconcile.WalletReading, _ *time.Duration) { e.WalletBefore = nil }, false},
		"moved while reading": {func(_ *Evidence, w *reconcile.WalletReading, _ *time.Duration) { w.Moved = true }, false},
		"booked a moment ago": {func(_ *Evidence, w *reconcile.WalletReading, _ *time.Duration) { w.Earlier = []int64{1_000} }, false},
		"sent a moment ago":   {func(_ *Evidence, _ *reconcile.WalletReading, s *time.Duration) { *s = reconcile.MovesWithin - 1 }, false},
		"another open before": {func(_ *Evidence, w *reconcile.WalletReading, _ *time.Duration) {
			w.Before.Open = append(w.Before.Open, other)
		}, false},
		"another open after": {func(_ *Evidence, w *reconcile.WalletReading, _ *time.Duration) {
			w.After.Open = append(w.After.Open, other)
		}, false},
		"another open instead": {func(_ *Evidence, w *reconcile.WalletReading, _ *time.Duration) { w.After.Open[0] = other }, false},
		"resolved meanwhile":   {func(_ *Evidence, w *reconcile.WalletReading, _ *time.Duration) { w.After.Open = nil }, false},
	} {
		e := &Evidence{WalletBefore: &tables.Reconciled{}, Verdict: &Verdict{Outcome: VerdictCharged}}
		e.OperationID, e.Currency = "a/0001", "USD"
		w := reconcile.WalletReading{ProviderCents: 700}
		w.Before = tables.Position{Balance: tables.Balance{WalletCents: 1_000}, Open: []tables.Exposure{own}}
		w.After = tables.Position{Balance: tables.Balance{WalletCents: 1_000}, Open: []tables.Exposure{own}}
		since := reconcile.MovesWithin
		c.change(e, &w, &since)
		e.WalletGap = e.gap(w, since)
		charged, text := int64(0), ""
		if c.told {
			charged, text = 300, " The provider's wallet holds 3.00 USD less than the ledger, and nothing else is open."
		}
		if got := e.ChargedByWallet(); got != charged || e.walletText(0) != text {
			t.Errorf("%s: charged %d %q, want %d %q", name, got, strings.TrimSpace(e.walletText(0)), charged, text)
		}
	}
}

// The ledger counts money in suspense as charged.
func TestAWalletThatAgreesSaysWhatTheLedgerHasBooked(t *testing.T) {
	e := &Evidence{WalletGap: new(int64)}
	e.Currency = "USD"
	for charged, want := range map[int64]string{
		0:   " The provider's wallet agrees with the ledger without it.",
		300: " The provider's wallet agrees with the ledger, in which the 3.00 USD are booked as charged.",
	} {
		if got := e.walletText(charged); got != want {
			t.Errorf("%d in suspense: %q", charged, got)
		}
	}
}
