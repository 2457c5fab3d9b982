// Single events of an account's stream, by their sequence and by their time.

package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// EventAt is the event with a sequence; found is false where the stream does not hold it.
func (q *Queue) EventAt(ctx context.Context, account string, seq uint64) (event ReceivedEvent, found bool, err error) {
	stream, err := q.eventsStream(ctx, account)
	if err != nil {
		return ReceivedEvent{}, false, err
	}
	return eventAt(ctx, stream, account, seq)
}

func eventAt(ctx context.Context, stream jetstream.Stream, account string, seq uint64) (event ReceivedEvent, found bool, err error) {
	msg, err := stream.GetMsg(ctx, seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return ReceivedEvent{}, false, nil
	}
	if err != nil {
		return ReceivedEvent{}, false, fmt.Errorf("event %d of account %s: %w", seq, account, err)
	}
	return received(account, msg.Subject, msg.Sequence, msg.Header, msg.Data), true, nil
}

// FirstEventSince is the sequence of the first event whose fact is of an instant or later;
// the one behind the stream's last where there is none. Facts are in the order of their
// times, but for clocks that were set back.
func (q *Queue) FirstEventSince(ctx context.Context, account string, at time.Time) (uint64, error) {
	stream, err := q.eventsStream(ctx, account)
	if err != nil {
		return 0, err
	}
	state := stream.CachedInfo().State
	from, to := max(state.FirstSeq, 1), state.LastSeq+1
	for from < to {
		middle := from + (to-from)/2
		event, found, err := eventAt(ctx, stream, account, middle)
		if err != nil {
			return 0, err
		}
		var of struct {
			Time time.Time `json:"time"`
		}
		if found {
			if err := json.Unmarshal(event.Data, &of); err != nil {
				return 0, fmt.Errorf("event %d of account %s: %w", middle, account, err)
			}
		}
		if of.Time.Before(at) {
			from = middle + 1
		} else {
			to = middle
		}
	}
	return from, nil
}
