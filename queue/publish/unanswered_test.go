package publish

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"perennial/queue"
	"perennial/queue/natstest"
	"perennial/queue/natstest/jstest"
	"perennial/queue/streams"
)

// A NATS server that cannot store, as with a full disk, answers no publisher. The error
// says what to check, and that the same id may be submitted again.
func TestACommandThatIsNotStoredInTimeSaysWhatToDo(t *testing.T) {
	err := Publisher{}.commandError(t.Context(), "main", fmt.Errorf("publish to x: %w", context.DeadlineExceeded))
	if text := err.Error(); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrUnacknowledged) || !strings.Contains(text, "disk") || !strings.Contains(text, "same id") {
		t.Error(err)
	}
}

// TestACommandWithoutAnAcknowledgementIsNotInProgress checks that the error tells the producer
// to publish the command again, and not to wait for its end.
func TestACommandWithoutAnAcknowledgementIsNotInProgress(t *testing.T) {
	server := natstest.Serve(t, t.TempDir())
	js := jstest.Connect(t, server.URL())
	natstest.Check(t, streams.Wanted{Account: "main", Replicas: 1}.Ensure(natstest.Within(t), js))
	mute := natstest.StartMute(t, server.URL())
	muted := jstest.Connect(t, mute.URL)
	mute.Silent.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := New(muted).CarryOut(ctx, "main", Outgoing{Kind: queue.KindOrderCreate, Data: []byte("{}")}); !errors.Is(err, ErrUnacknowledged) {
		t.Error(err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := New(js).CarryOut(ctx, "main", Outgoing{Kind: queue.KindOrderCreate, Data: []byte("{}")}); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrUnacknowledged) {
		t.Errorf("a published command: %v", err)
	}
}
