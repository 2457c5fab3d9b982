package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"perennial/cmd/perennial/internal/verbs"
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
