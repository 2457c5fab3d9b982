package cli

import (
	"strings"
	"testing"

	"perennial/ledger"
)

// TestWhatTheLedgerKnowsToBePublishedIsMissed: by verify, also where a run would
// publish it again unasked.
func TestWhatTheLedgerKnowsToBePublishedIsMissed(t *testing.T) {
	noted := ledger.Published{Head: ledger.Head{Seq: 20}, FirmSeq: 15}
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
		{ledger.Published{Head: ledger.Head{Seq: 20}}, 0, "power cut"},
	} {
		if err := missingEvents(test.noted, test.last); (err != nil) != (test.says != "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%+v, ends with %d: %v", test.noted, test.last, err)
		}
	}
}
