// Reading what an events stream holds at the moment.

package queue

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/nats-io/nats.go/jetstream"
)

// History yields the events that an account's stream holds at the moment, from
// stream sequence first on, and ends behind the last. A stream from whose end
// messages were deleted is an error: what it counts and does not hold is lost.
func (q *Queue) History(ctx context.Context, account string, first uint64) iter.Seq2[ReceivedEvent, error] {
	return func(yield func(ReceivedEvent, error) bool) {
		last, err := q.lastHeld(ctx, account)
		if err != nil {
			yield(ReceivedEvent{}, err)
			return
		}
		first = max(first, 1)
		if last < first {
			return
		}
		for event, err := range q.Events(ctx, account, WatchFrom{Seq: first}) {
			if !yield(event, err) || err != nil || event.StreamSeq >= last {
				return
			}
		}
	}
}

// lastHeld is the sequence of a stream's last message, 0 for an empty one.
func (q *Queue) lastHeld(ctx context.Context, account string) (uint64, error) {
	stream, err := q.eventsStream(ctx, account)
	if err != nil {
		return 0, err
	}
	counted := stream.CachedInfo().State.LastSeq
	last, found, err := q.LastEvent(ctx, account)
	if err != nil {
		return 0, err
	}
	if !found && counted > 0 || last.StreamSeq < counted {
		return 0, fmt.Errorf("events stream of account %s: it counts %d messages and its last is %d: messages were deleted from its end", account, counted, last.StreamSeq)
	}
	return last.StreamSeq, nil
}

// HistoryOf yields the events of one type that an account's stream holds at the
// moment.
func (q *Queue) HistoryOf(ctx context.Context, account, eventType string) iter.Seq2[ReceivedEvent, error] {
	return func(yield func(ReceivedEvent, error) bool) {
		stream, err := q.eventsStream(ctx, account)
		if err != nil {
			yield(ReceivedEvent{}, err)
			return
		}
		last, err := stream.GetLastMsgForSubject(ctx, EventSubject(account, eventType))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return
		}
		if err != nil {
			yield(ReceivedEvent{}, fmt.Errorf("last %s of account %s: %w", eventType, account, err))
			return
		}
		for event, err := range q.Events(ctx, account, WatchFrom{Types: []string{eventType}}) {
			if !yield(event, err) || err != nil || event.StreamSeq >= last.Sequence {
				return
			}
		}
	}
}
