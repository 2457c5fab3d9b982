package ledger

import (
	"testing"

	"perennial/ledger/fact"
)

func TestEveryFactTypeHasAFoldAndAReader(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range history() {
		seen[f.FactType()] = true
	}
	for name := range fact.Types() {
		if !seen[name] {
			t.Errorf("the history of these tests has no %s", name)
		}
	}
}
