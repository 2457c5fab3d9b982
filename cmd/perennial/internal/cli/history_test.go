package cli

import (
	"context"
	"errors"
	"strings"
	"testing"

	"perennial/cmd/perennial/internal/config"
	"perennial/queue"
)

// A command without an id of its own gets one; published again under another it would be
// another purchase.
func TestACommandThatMayBeStoredNamesItsID(t *testing.T) {
	for err, names := range map[error]bool{context.DeadlineExceeded: true, queue.ErrDisconnected: true, queue.ErrNoAccount: false} {
		if got := again(err, "cli-7"); strings.Contains(got.Error(), "--id cli-7") != names || !errors.Is(got, err) {
			t.Error(got)
		}
	}
}

// TestAnUnreachableNATSIsAnError of the commands that read the events stream: its
// cleanup once dereferenced the history that was not opened.
func TestAnUnreachableNATSIsAnError(t *testing.T) {
	a := &app{natsURL: "nats://127.0.0.1:1"}
	c := config.Embedded()
	c.DataDir = t.TempDir()
	if _, err := a.openHistory(c, "main"); !errors.Is(err, errUnreachable) {
		t.Errorf("got %v", err)
	}
	if _, err := a.openHistoryLocked(c, "main"); !errors.Is(err, errUnreachable) {
		t.Errorf("locked: got %v", err)
	}
	if _, err := a.connect(); !errors.Is(err, errUnreachable) || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("no line says what to do: %v", err)
	}
	c.DataDir += "/absent"
	if _, err := (&app{}).openHistory(c, "main"); err == nil {
		t.Error("a store that is not there was opened")
	}
}
