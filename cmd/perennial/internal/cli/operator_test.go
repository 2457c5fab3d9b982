package cli

import (
	"testing"
)

// A container or cron may not set USER.
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
