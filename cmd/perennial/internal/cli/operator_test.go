package cli

import (
	"testing"
)

// TestAFactOfAPersonHasAName also where no shell has set one: in a container, or
// from cron.
func TestAFactOfAPersonHasAName(t *testing.T) {
	t.Setenv("USER", "ada")
	if got := operator(); got != "ada" {
		t.Errorf("got %q", got)
	}
	t.Setenv("USER", "")
	if operator() == "" {
		t.Error("nobody did it")
	}
}
