package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"perennial/queue/events"
)

// Position is the place of an event in the account's history. A program stores the position
// of the last event it has processed, together with its own results. The zero value is
// before the first event.
type Position struct {
	Seq  uint64 `json:"seq"`
	Hash string `json:"hash"`
}

// Event is a published fact.
type Event struct {
	ID          string // permanent: the same event always has the same id
	Type        string // such as order.delivered
	Subject     string // id of the subject; "" for the account
	Time        time.Time
	Traceparent string // from the command's message; "" if it had none
	CommandID   string
	OperationID string
	Labels      map[string]string
	Booked      *Money          // booked by this event; nil if nothing was
	Data        json.RawMessage // follows the schema of its type (docs/events)
	Position    Position
}

// ErrOtherHistory reports that a position belongs to another history of the account, for example
// after a restore. Discard what was derived from events after the histories diverged. Then read
// the events from there again.
var ErrOtherHistory = errors.New("the account has another history than this position is of")

// ErrArchived reports that events after a position were archived. A program that needs them
// must read the archive, or start with the zero Position.
var ErrArchived = errors.New("events after this position were archived")

// Events yields every event after a position, in order, and waits for more until ctx ends or the
// caller stops. It continues across lost connections. If types are given, such as
// order.delivered or renewal.*, it leaves out all others, and does not notice events that are
// archived before it reads them. It ends after it has yielded an error: ctx's,
// [ErrOtherHistory], [ErrArchived] or [queue.ErrNoAccount].
func (c *Client) Events(ctx context.Context, after Position, types ...string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if err := persist(ctx, func(ctx context.Context) error { return c.follows(ctx, after) }); err != nil {
			yield(Event{}, err)
			return
		}
		for received, err := range events.Of(c.queue.JetStream(), c.account).Follow(ctx, events.From{Seq: after.Seq + 1, Types: types}) {
			event, previous := Event{}, ""
			if err == nil {
				event, previous, err = eventOf(received)
			}
			if err == nil {
				err = continues(after, event, previous, len(types) == 0)
			}
			after = event.Position
			if !yield(event, err) || err != nil {
				return
			}
		}
	}
}

func (c *Client) follows(ctx context.Context, after Position) error {
	if after.Seq == 0 {
		return nil
	}
	state, err := events.Of(c.queue.JetStream(), c.account).State(ctx)
	if err != nil {
		return err
	}
	switch {
	case after.Seq > state.Last:
		return fmt.Errorf("event %d, of %d: %w", after.Seq, state.Last, ErrOtherHistory)
	case after.Seq+1 < state.First:
		return fmt.Errorf("event %d, the first one kept is %d: %w", after.Seq, state.First, ErrArchived)
	case after.Seq < state.First:
		return nil // the event itself was archived, but the next events are in the stream
	}
	for received, err := range events.Of(c.queue.JetStream(), c.account).Follow(ctx, events.From{Seq: after.Seq}) {
		if err == nil && received.Hash != after.Hash {
			err = fmt.Errorf("event %d: %w", after.Seq, ErrOtherHistory)
		}
		return err
	}
	return ctx.Err()
}

// continues checks that an event follows the one before it. previous is the hash of the journal
// row before the event. If all is set, the reader gets all types. A gap then means that an event
// was archived before a slow reader got it.
func continues(before Position, event Event, previous string, all bool) error {
	switch gap := event.Position.Seq > before.Seq+1; {
	case before.Seq == 0:
	case gap && all:
		return fmt.Errorf("after event %d comes %d: %w", before.Seq, event.Position.Seq, ErrArchived)
	case !gap && before.Hash != "" && previous != before.Hash:
		return fmt.Errorf("event %d does not follow event %d: %w", event.Position.Seq, before.Seq, ErrOtherHistory)
	}
	return nil
}

func eventOf(received events.Event) (event Event, previous string, err error) {
	var e struct {
		ID, Type, Subject, Traceparent string
		Time                           time.Time
		Data                           json.RawMessage
	}
	var of struct {
		CommandID   string            `json:"command_id"`
		OperationID string            `json:"operation_id"`
		Labels      map[string]string `json:"labels"`
		Booked      *Money            `json:"booked"`
		Ledger      struct {
			Position
			Previous string `json:"prev_hash"`
		} `json:"ledger"`
	}
	err = json.Unmarshal(received.Data, &e)
	if err == nil {
		err = json.Unmarshal(e.Data, &of)
	}
	if err != nil {
		return event, "", fmt.Errorf("event %d cannot be read: %w", received.StreamSeq, err)
	}
	return Event{
		ID: e.ID, Type: strings.TrimSuffix(strings.TrimPrefix(e.Type, "perennial."), ".v1"), Subject: e.Subject, Time: e.Time, Traceparent: e.Traceparent,
		CommandID: of.CommandID, OperationID: of.OperationID, Labels: of.Labels, Booked: of.Booked, Data: e.Data, Position: of.Ledger.Position,
	}, of.Ledger.Previous, nil
}

// TypeFinished is the type of the event that reports the end of a command.
const TypeFinished = "command.finished"

// Finished returns the result in a command.finished event. It returns an error for any
// other type of event.
func (e Event) Finished() (Finished, error) {
	if e.Type != TypeFinished {
		return Finished{}, fmt.Errorf("event %s is a %s and no %s", e.ID, e.Type, TypeFinished)
	}
	return finishedOf(e.Data)
}
