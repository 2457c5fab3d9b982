package cli

import (
	"bytes"
	"strings"
	"testing"

	"perennial/jobs/reconcile"
)

// A difference is reported although nothing is in progress.
func TestAWalletThatDiffersIsNotToTheCent(t *testing.T) {
	t.Parallel()
	for provider, want := range map[int64]string{1744100: "book 17,447.00 USD, they differ by -6.00 USD\n", 1744700: "book 17,447.00 USD, to the cent\n"} {
		var out bytes.Buffer
		x := reconcile.Reconciliation{Quiet: true, Currency: "USD"}
		x.Wallet.ProviderCents, x.Wallet.BookCents = provider, 1744700
		if err := (ledgerCommands{&app{stdout: &out, output: "table"}}).printReconciliation(x); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%v: %s", err, out.String())
		}
	}
}
