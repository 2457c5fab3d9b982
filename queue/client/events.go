// Events of an account, from any place of its history on.

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

// Position is the place of an event in the account's history. A program keeps that of
// the last event that it has dealt with, together with what it made of it; the zero value
// is before the first.
type Position struct {
	Seq  uint64 `json:"seq"`
	Hash string `json:"hash"`
}

// Event is a fact that was published.
type Event struct {
	ID          string // the same event has the same id forever
	Type        string // such as order.delivered
	Subject     string // what it is about; "" for the account
	Time        time.Time
	Traceparent string // of the command's message, "" where it had none
	CommandID   string
	OperationID string
	Labels      map[string]string
	Booked      *Money          // what this event booked; nil: nothing
	Data        json.RawMessage // of its type's schema (docs/events)
	Position    Position
}

// ErrOtherHistory says that the account's history is not the one that a position is of, as
// after a restore: what was derived from the events after the point where they part has
// to go. Read again.
var ErrOtherHistory = errors.New("the account has another history than this position is of")

// ErrArchived says that events after a position were archived: a program that needs them
// reads the archive, or begins with the zero Position.
var ErrArchived = errors.New("events after this position were archived")

// Events yields every event after a position, in order, and waits for more until ctx ends
// or the caller stops. With types, such as order.delivered or renewal.*, it leaves out all
// others. It ends after yielding an error: ctx's, [ErrOtherHistory], [ErrArchived],
// [queue.ErrNoAccount]. Lost connections are bridged.
func (c *Client) Events(ctx context.Context, after Position, types ...string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if err := persist(ctx, func(ctx context.Context) error { return c.follows(ctx, after) }); err != nil {
			yield(Event{}, err)
			return
		}
		for received, err := range events.Of(c.queue.JetStream(), c.account).Follow(ctx, events.From{Seq: after.Seq + 1, Types: types}) {
			event := Event{}
			if err == nil {
				event, err = eventOf(received)
			}
			if !yield(event, err) || err != nil {
				return
			}
		}
	}
}

// follows is nil when the stream continues from a position.
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
		return nil // it was archived itself; what follows is there
	}
	for received, err := range events.Of(c.queue.JetStream(), c.account).Follow(ctx, events.From{Seq: after.Seq}) {
		if err == nil && received.Hash != after.Hash {
			err = fmt.Errorf("event %d: %w", after.Seq, ErrOtherHistory)
		}
		return err
	}
	return ctx.Err()
}

// eventOf reads an event as it was published.
func eventOf(received events.Event) (Event, error) {
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
		Ledger      Position          `json:"ledger"`
	}
	err := json.Unmarshal(received.Data, &e)
	if err == nil {
		err = json.Unmarshal(e.Data, &of)
	}
	if err != nil {
		return Event{}, fmt.Errorf("event %d cannot be read: %w", received.StreamSeq, err)
	}
	return Event{
		ID: e.ID, Type: strings.TrimSuffix(strings.TrimPrefix(e.Type, "perennial."), ".v1"), Subject: e.Subject, Time: e.Time, Traceparent: e.Traceparent,
		CommandID: of.CommandID, OperationID: of.OperationID, Labels: of.Labels, Booked: of.Booked, Data: e.Data, Position: of.Ledger,
	}, nil
}

// TypeFinished is the type of the event that a command has ended.
const TypeFinished = "command.finished"

// Finished is what the command came to that a command.finished is about. The error is that
// of another type of event.
func (e Event) Finished() (Finished, error) {
	if e.Type != TypeFinished {
		return Finished{}, fmt.Errorf("event %s is a %s and no %s", e.ID, e.Type, TypeFinished)
	}
	return finishedOf(e.Data)
}
