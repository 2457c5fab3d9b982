package ledger

import (
	"bytes"
	"flag"
	"maps"
	"os"
	"slices"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/events.jsonl anew")

const exampleEvents = "testdata/events.jsonl"

// The test keeps, for the consumers' documents, the most complete published event of each
// type.
func TestTheExamplesOfEventsAreOfARealJournal(t *testing.T) {
	b := newBook(t)
	for _, f := range append(history(), over()...) {
		b.commit(f)
	}
	rows, err := b.Rows(t.Context(), 0, 10_000)
	check(t, err)
	chosen := map[string][]byte{}
	for i, event := range eventsOf(t, rows) {
		if len(event) > len(chosen[rows[i].Type]) {
			chosen[rows[i].Type] = event
		}
	}
	var want []byte
	for _, name := range slices.Sorted(maps.Keys(chosen)) {
		want = append(append(want, chosen[name]...), '\n')
	}
	if *update {
		check(t, os.WriteFile(exampleEvents, want, 0o644))
	}
	if have, err := os.ReadFile(exampleEvents); err != nil || !bytes.Equal(have, want) {
		t.Errorf("%s is not what is published (%v): go test ./ledger -run Examples -update, then go test ./cmd/perennial/internal/schema -run Schemas -update", exampleEvents, err)
	}
}
