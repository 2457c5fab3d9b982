// Package queuetest provides an in-memory commands stream for simulations. One test suite checks
// both this stream and JetStream.
package queuetest

import (
	"context"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"perennial/queue"
	"perennial/queue/intake"
)

// Stream is a commands stream that uses the caller's clock. Like JetStream it delivers in
// the order of publication, and redelivers commands that were returned or not acknowledged
// in time. It is not safe for concurrent use.
type Stream struct {
	// AckWait is how long after its delivery an unacknowledged command is delivered again.
	AckWait time.Duration
	// Acked is called for every acknowledgement before it takes effect. It may be nil.
	Acked func(intake.Message)

	now     func() time.Time
	last    uint64
	entries []*entry // unacknowledged commands, in the order of their sequences
}

type entry struct {
	message intake.Message
	due     time.Time // not delivered before this time
}

// NewStream returns an empty stream.
func NewStream(now func() time.Time) *Stream {
	return &Stream{AckWait: time.Minute, now: now}
}

// Publish stores a command of a kind (queue.KindOrderCreate, …).
func (s *Stream) Publish(kind queue.Kind, data []byte) { s.PublishTo(queue.Line{Kind: kind}, data) }

// PublishTo stores a command of a kind and priority.
func (s *Stream) PublishTo(line queue.Line, data []byte) { s.PublishMessage(line, data, nil) }

// PublishMessage stores a command of a kind and priority, with headers.
func (s *Stream) PublishMessage(line queue.Line, data []byte, header nats.Header) {
	s.last++
	s.entries = append(s.entries, &entry{message: intake.Message{
		Kind: line.Kind, Priority: line.Priority, Subject: line.Subject("main"), Data: data, Header: header, StreamSequence: s.last, Published: s.now(),
	}})
}

// Left returns the number of unacknowledged commands.
func (s *Stream) Left() int { return len(s.entries) }

// Next returns the time at which the next command is due. found is false if there is none.
func (s *Stream) Next() (at time.Time, found bool) {
	for _, e := range s.entries {
		if !found || e.due.Before(at) {
			at, found = e.due, true
		}
	}
	return at, found
}

// Reopen replaces the consumer. Commands that were delivered but not acknowledged are due
// immediately.
func (s *Stream) Reopen() {
	for _, e := range s.entries {
		e.due = time.Time{}
	}
}

// Fetch returns at most limit due commands, or none if none is due.
func (s *Stream) Fetch(ctx context.Context, limit int) ([]intake.Message, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var out []intake.Message
	now := s.now()
	for _, e := range s.entries {
		if len(out) == limit {
			break
		}
		if e.due.After(now) {
			continue
		}
		e.due = now.Add(s.AckWait)
		e.message.Delivered++
		out = append(out, intake.NewMessage(e.message, &delivery{s, e}))
	}
	return out, nil
}

type delivery struct {
	stream *Stream
	entry  *entry
}

func (d *delivery) Ack() error {
	s := d.stream
	if i := slices.Index(s.entries, d.entry); i >= 0 {
		if s.Acked != nil {
			s.Acked(d.entry.message)
		}
		s.entries = slices.Delete(s.entries, i, i+1)
	}
	return nil
}

func (d *delivery) Nak(delay time.Duration) error {
	d.entry.due = d.stream.now().Add(delay)
	return nil
}
