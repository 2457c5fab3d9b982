// This file reads single events of an account's stream, by sequence and by time.

package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// At returns the event with a sequence. found is false if the stream does not have it.
func (s Stream) At(ctx context.Context, seq uint64) (event Event, found bool, err error) {
	stream, err := s.stream(ctx)
	if err != nil {
		return Event{}, false, err
	}
	return eventAt(ctx, stream, s.account, seq)
}

func eventAt(ctx context.Context, stream jetstream.Stream, account string, seq uint64) (event Event, found bool, err error) {
	msg, err := stream.GetMsg(ctx, seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return Event{}, false, nil
	}
	if err != nil {
		return Event{}, false, fmt.Errorf("event %d of account %s: %w", seq, account, err)
	}
	return received(account, msg.Subject, msg.Sequence, msg.Header, msg.Data), true, nil
}

// FirstSince returns the sequence of the first event whose fact has this time or a later
// time. If there is none, it returns the sequence after the stream's last. Facts are in the
// order of their times, unless a clock was set back.
func (s Stream) FirstSince(ctx context.Context, at time.Time) (uint64, error) {
	stream, err := s.stream(ctx)
	if err != nil {
		return 0, err
	}
	state := stream.CachedInfo().State
	from, to := max(state.FirstSeq, 1), state.LastSeq+1
	for from < to {
		middle := from + (to-from)/2
		event, found, err := eventAt(ctx, stream, s.account, middle)
		if err != nil {
			return 0, err
		}
		var of struct {
			Time time.Time `json:"time"`
		}
		if found {
			if err := json.Unmarshal(event.Data, &of); err != nil {
				return 0, fmt.Errorf("event %d of account %s: %w", middle, s.account, err)
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
