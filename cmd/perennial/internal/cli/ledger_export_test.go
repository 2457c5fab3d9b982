package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"perennial/ledger"
	"perennial/ledger/fact"
)

// What ends early, or cannot be, is said beside the output.
func TestBooksSayWhereAListEndsAndWhichMonthsThereAre(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("perennial-data", 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := ledger.Open(t.Context(), ledger.Config{Path: filepath.Join("perennial-data", "main.ledger.db"), Clock: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	err = l.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(fact.LedgerOpened{AccountID: "acc_1", Environment: "sandbox", BaseURL: "http://127.0.0.1:1", Currency: "USD", OpeningCents: 500, Epoch: "e"},
			fact.LedgerRecorded{Movement: "top-up", AmountCents: 5, By: "ada", Reason: "card"})
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args, out, err string
		code           int
	}{
		{"ledger entries --limit 3", "funding", "there are more entries: go on with --from 2", ExitDone},
		{"ledger entries -o json --limit 1", `"seq":1`, "--from 2", ExitDone},
		{"ledger entries --from 2", "card", "", ExitDone},
		{"ledger statement", "Opening balance | 5.00", "", ExitDone},
		{"ledger statement --format csv", `"Opening balance",,,,500,5.00,"USD"`, "", ExitDone},
		{"ledger statement --month 2999-01", "", "has not begun", ExitUsage},
		{"ledger export --included", "", "--format beancount", ExitUsage},
		{"ledger export --included --format beancount", `"funding"`, "", ExitDone},
	} {
		var out, errs strings.Builder
		code := Program{Args: strings.Fields(test.args), Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs}.Main(t.Context())
		if code != test.code || !strings.Contains(errs.String(), test.err) || test.err == "" && errs.String() != "" || !strings.Contains(out.String(), test.out) {
			t.Errorf("%s: %d\n%s\n%s", test.args, code, out.String(), errs.String())
		}
	}
}
