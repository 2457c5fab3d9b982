package cli

import (
	"testing"
)

// TestAFactOfAPersonHasAName: also where no shell has set USER, in a container or
// under cron.
func TestAFactOfAPersonHasAName(t *testing.T) {
	t.Setenv("USER", "ada")
	if got := operator(); got != "ada" {
		t.Errorf("got %q", got)
	}
	t.Setenv("USER", "")
	if operator() == "" {
		t.Error("the operator has no name")
	}
}
