package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perennial/ledger"
	"perennial/ledger/chain"
)

// verify reports the missing events, even if a run would publish them again by itself.
func TestWhatTheLedgerKnowsToBePublishedIsMissed(t *testing.T) {
	noted := ledger.Published{Head: chain.Head{Seq: 20}, FirmSeq: 15}
	for _, test := range []struct {
		noted ledger.Published
		last  uint64
		says  string
	}{
		{ledger.Published{}, 0, ""},
		{noted, 20, ""},
		{noted, 25, ""},
		{noted, 19, "power cut"},
		{noted, 14, "--refill-events"},
		{noted, 0, "--refill-events"},
		{ledger.Published{Head: chain.Head{Seq: 20}}, 0, "power cut"},
	} {
		if err := missingEvents(test.noted, test.last); (err != nil) != (test.says != "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%+v, ends with %d: %v", test.noted, test.last, err)
		}
	}
}

// The working copy is made in --temp, or else in TMPDIR. Without either, the error
// names --temp.
func TestAFileThatIsReadOnlyIsVerifiedElsewhere(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	const readOnly = "/proc/self/main.ledger.db" // no user may create a file there
	for _, test := range []struct{ temp, variable, file, want string }{
		{"", elsewhere, filepath.Join(dir, "main.ledger.db"), dir},
		{elsewhere, "", filepath.Join(dir, "main.ledger.db"), elsewhere},
		{"", elsewhere, readOnly, elsewhere},
		{elsewhere, dir, readOnly, elsewhere},
		{"", "", readOnly, ""},
	} {
		t.Setenv("TMPDIR", test.variable)
		got, err := verifyIn(test.temp, test.file)
		if got != test.want || (err != nil) != (got == "") || err != nil && (!strings.Contains(err.Error(), "--temp DIR") || !strings.Contains(err.Error(), readOnly)) {
			t.Errorf("%+v: %q %v", test, got, err)
		}
	}
	if _, err := os.Stat(readOnly); err == nil {
		t.Error("a file was made")
	}
}
