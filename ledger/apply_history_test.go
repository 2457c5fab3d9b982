package ledger

import (
	"testing"
)

func TestEveryFactTypeHasAFoldAndAReader(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range history() {
		seen[f.FactType()] = true
	}
	for name := range FactTypes() {
		if !seen[name] {
			t.Errorf("the history of these tests has no %s", name)
		}
	}
}
