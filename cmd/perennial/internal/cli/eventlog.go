// The log of received events that the demonstration waits for.

package cli

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"perennial/ledger/fact"
	"perennial/queue"
	"perennial/queue/events"
)

// eventLog stores received events, so that callers can wait for them.
type eventLog struct {
	mu      sync.Mutex
	events  []events.Event
	changed chan struct{}
}

func newEventLog() *eventLog { return &eventLog{changed: make(chan struct{})} }

func (l *eventLog) follow(ctx context.Context, q *queue.Queue) {
	for e, err := range events.Of(q.JetStream(), "main").Follow(ctx, events.From{Seq: 1}) {
		if err != nil {
			return
		}
		l.mu.Lock()
		l.events = append(l.events, e)
		close(l.changed)
		l.changed = make(chan struct{})
		l.mu.Unlock()
	}
}

func (l *eventLog) all() []events.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.events)
}

// until waits until an event matches.
func (l *eventLog) until(ctx context.Context, match func(events.Event) bool) error {
	for {
		l.mu.Lock()
		found, changed := slices.ContainsFunc(l.events, match), l.changed
		l.mu.Unlock()
		if found {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (l *eventLog) wait(ctx context.Context, eventType, commandID string) error {
	return l.until(ctx, func(e events.Event) bool {
		return e.Type == eventType && (commandID == "" || commandOf(e) == commandID)
	})
}

func (l *eventLog) waitSeq(ctx context.Context, seq uint64) error {
	return l.until(ctx, func(e events.Event) bool { return e.Seq >= seq })
}

func commandOf(e events.Event) string {
	var event struct {
		Data fact.Ref `json:"data"`
	}
	if json.Unmarshal(e.Data, &event) != nil {
		return ""
	}
	return event.Data.CommandID
}
