package cli

import (
	"bytes"
	"os"
	"testing"
)

// examplesFile is a copy: no package can embed a file of another.
const examplesFile, examplesSource = "schema_examples.jsonl", "../../../../ledger/testdata/events.jsonl"

func updateExamples(t *testing.T) {
	t.Helper()
	var err error
	if exampleEvents, err = os.ReadFile(examplesSource); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(examplesFile, exampleEvents, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestTheCopyOfTheExamplesIsWhatTheLedgerWrote(t *testing.T) {
	if want, err := os.ReadFile(examplesSource); err != nil || !bytes.Equal(want, exampleEvents) {
		t.Errorf("%s is not %s (%v): go test ./cmd/perennial/internal/cli -run Schemas -update", examplesFile, examplesSource, err)
	}
}
