package cli

import (
	"testing"
	"time"

	"perennial/jobs/inspect"
)

// What an operation cost may not be known; that it was charged still books something.
func TestAnAnswerOfAnUnknownAmountDoesNotBookNothing(t *testing.T) {
	rows := answerRows([]inspect.Answer{{Say: "--charged CENTS"}, {Say: "--charged CENTS --order ord_1"}, {Say: "--not-charged"}}, "USD")
	for i, want := range []string{"CENTS, as charged", "CENTS, as charged", "nothing"} {
		if got := rows[i][2]; got != want {
			t.Errorf("%s books %q, want %q", rows[i][0], got, want)
		}
	}
}

// TestTheNewestWalletHasItsAge: one that was not read is not shown.
func TestTheNewestWalletHasItsAge(t *testing.T) {
	now := time.Date(2026, 11, 27, 2, 0, 0, 0, time.UTC)
	if text := walletNowText(&inspect.WalletRead{ProviderCents: 496880, At: now.Add(-3 * time.Second)}, "USD", now); text != ", now 4,968.80 USD, read 3 seconds ago" {
		t.Errorf("%q", text)
	}
	if text := walletNowText(nil, "USD", now); text != "" {
		t.Errorf("%q", text)
	}
}
