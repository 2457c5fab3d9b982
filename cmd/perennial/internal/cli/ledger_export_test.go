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

// A note beside the output says where a list ends early, and why a month is impossible.
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
	kept := map[string]string{
		"perennial.yaml":                "data_dir: perennial-data\naccounts: {main: {base_url: 'http://127.0.0.1:1', app_id: sbx_app_a, secret_file: main.key}}\n",
		"main.key":                      "hunter2",
		"perennial-data/perennial.lock": "", "perennial-data/main.ledger.1-9.archive.db": "", "asyncapi.json": "SQLite format 3\x00",
	}
	for name, text := range kept {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		args, out, err string
		code           int
	}{
		{"ledger entries --limit 3", "funding", "there are more entries: continue with --from 2", ExitDone},
		{"ledger entries -o json --limit 1", `"seq":1`, "--from 2", ExitDone},
		{"ledger entries --from 2", "card", "", ExitDone},
		{"ledger statement", "Opening balance | 5.00", "", ExitDone},
		{"ledger statement --format csv", `"Opening balance",,,,500,5.00,"USD"`, "", ExitDone},
		{"ledger statement --month 2999-01", "", "has not begun", ExitUsage},
		{"ledger export --included", "", "--format beancount", ExitUsage},
		{"ledger export --included --format beancount", `"funding"`, "", ExitDone},
		{"ledger export --out perennial-data/export.csv", "", "", ExitDone},
		{"ledger export --out perennial-data/export.csv", "", "", ExitDone},
		{"ledger export --out perennial-data/main.ledger.db", "", "never written over", ExitUsage},
		{"ledger export --out perennial-data/main.ledger.db-wal", "", "never written over", ExitUsage},
		{"ledger statement --out perennial-data/../perennial-data/perennial.lock", "", "never written over", ExitUsage},
		{"ledger statement --out main.key", "", "never written over", ExitUsage},
		{"ledger statement --out perennial.yaml", "", "never written over", ExitUsage},
		{"schema --dir .", "", "never written over", ExitUsage},
		{"ledger backup perennial-data/copy.db", "copied", "", ExitDone},
		{"ledger export --out perennial-data/copy.db", "", "never written over", ExitUsage},
		{"ledger backup perennial-data/copy.db --force", "copied", "", ExitDone},
		{"ledger backup perennial-data/main.ledger.db --force", "", "never written over", ExitUsage},
		{"ledger backup perennial-data/main.ledger.db-shm --force", "", "never written over", ExitUsage},
		{"ledger backup perennial-data/main.ledger.1-9.archive.db --force", "", "never written over", ExitUsage},
		{"ledger backup main.key --force", "", "never written over", ExitUsage},
		{"ledger backup perennial.yaml --force", "", "never written over", ExitUsage},
		{"ledger rebuild --out perennial-data/main.ledger.db-wal", "", "never written over", ExitUsage},
		{"ledger verify", "2 rows", "", ExitDone},
	} {
		var out, errs strings.Builder
		code := Program{Args: strings.Fields(test.args), Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs}.Main(t.Context())
		if code != test.code || !strings.Contains(errs.String(), test.err) || test.err == "" && errs.String() != "" || !strings.Contains(out.String(), test.out) {
			t.Errorf("%s: %d\n%s\n%s", test.args, code, out.String(), errs.String())
		}
	}
	for name, text := range kept {
		if now, err := os.ReadFile(name); err != nil || string(now) != text {
			t.Errorf("%s: %q %v", name, now, err)
		}
	}
}
