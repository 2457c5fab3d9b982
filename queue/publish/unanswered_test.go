package publish

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// A NATS server that cannot store, as with a full disk, answers no publisher. The error
// says what to check, and that the same id may be submitted again.
func TestACommandThatIsNotStoredInTimeSaysWhatToDo(t *testing.T) {
	err := Publisher{}.commandError(t.Context(), "main", fmt.Errorf("publish to x: %w", context.DeadlineExceeded))
	if text := err.Error(); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(text, "disk") || !strings.Contains(text, "same id") {
		t.Error(err)
	}
}
