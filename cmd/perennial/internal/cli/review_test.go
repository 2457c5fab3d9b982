package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs/desk"
	"perennial/ledger/tables"
)

// The table of `accounts show` says it like /readyz.
func TestAPauseSaysUntilWhen(t *testing.T) {
	until := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	v := verbs.AccountView{Paused: []tables.Pause{{Scope: "account", Cause: "rate_limited", Until: &until}, {Scope: "account", Cause: "person"}}}
	var out bytes.Buffer
	if err := (&app{stdout: &out, output: "table"}).printAccount(v); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); strings.Count(text, "until 2026-03-01T12:00:00Z") != 1 {
		t.Error(text)
	}
}

func TestAnAnswerNamesTheCommandThatCorrectsIt(t *testing.T) {
	t.Parallel()
	changed := verbs.Changed{Currency: "USD", WalletCents: new(int64(499050))}
	for want, x := range map[string]desk.Resolution{
		"answered o/1: nothing charged; the ledger's wallet has 4,990.50 USD; `perennial reviews correct o/1 --charge AMOUNT --reason TEXT` corrects it, with --line PROXY_ID for each of several proxies": {ID: "o/1", Charged: new(false)},
		"answered o/1: 6.00 USD charged; the ledger's wallet has 4,990.50 USD; `perennial reviews correct o/1 --reason TEXT` corrects it":                                                                  {ID: "o/1", Charged: new(true), ChargedCents: 600},
		"answered r/1: nothing charged; the ledger's wallet has 4,990.50 USD; `perennial reviews correct r/1 --line px_1 --charge AMOUNT --reason TEXT` corrects it":                                       {ID: "r/1", ProxyID: "px_1", Charged: new(false)},
	} {
		if got := answeredText(x, changed); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}
