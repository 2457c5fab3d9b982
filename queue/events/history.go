// This file reads the events that a stream has now.

package events

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/nats-io/nats.go/jetstream"

	"perennial/queue"
)

// History yields the events that an account's stream has now, starting at stream sequence
// first, and ends after the last. If messages were deleted from the end of the stream, it
// yields an error, because these events are lost.
func (s Stream) History(ctx context.Context, first uint64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		last, err := s.lastHeld(ctx)
		if err != nil {
			yield(Event{}, err)
			return
		}
		first = max(first, 1)
		if last < first {
			return
		}
		for event, err := range s.Follow(ctx, From{Seq: first}) {
			if !yield(event, err) || err != nil || event.StreamSeq >= last {
				return
			}
		}
	}
}

// lastHeld returns the sequence of a stream's last message, or 0 if it is empty.
func (s Stream) lastHeld(ctx context.Context) (uint64, error) {
	stream, err := s.stream(ctx)
	if err != nil {
		return 0, err
	}
	counted := stream.CachedInfo().State.LastSeq
	last, found, err := s.LastRow(ctx)
	if err != nil {
		return 0, err
	}
	if !found && counted > 0 || last.StreamSeq < counted {
		return 0, fmt.Errorf("events stream of account %s: it counts %d messages and its last is %d: messages were deleted from its end", s.account, counted, last.StreamSeq)
	}
	return last.StreamSeq, nil
}

// HistoryOf yields the events of one type that an account's stream has now.
func (s Stream) HistoryOf(ctx context.Context, eventType string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		stream, err := s.stream(ctx)
		if err != nil {
			yield(Event{}, err)
			return
		}
		last, err := stream.GetLastMsgForSubject(ctx, queue.EventSubject(s.account, eventType))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return
		}
		if err != nil {
			yield(Event{}, fmt.Errorf("last %s of account %s: %w", eventType, s.account, err))
			return
		}
		for event, err := range s.Follow(ctx, From{Types: []string{eventType}}) {
			if !yield(event, err) || err != nil || event.StreamSeq >= last.Sequence {
				return
			}
		}
	}
}
