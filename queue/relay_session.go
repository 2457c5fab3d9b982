// One run of the relay's publishing, with its acknowledgements.

package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"perennial/ledger/failpoint"
)

// relaySession is one unbroken run of publishing. Only the first and the last
// message of a chunk ask for an acknowledgement: since each message names the
// sequence before it, the last one can be stored only if all before it were, or
// if a message that the relay did not publish took the place of one. Such a message is
// likeliest between two chunks, where the first one's acknowledgement shows it at
// once; elsewhere findPlace finds it.
type relaySession struct {
	relay *Relay
	inbox string
	acks  *nats.Subscription
	lost  chan nats.Status
	next  uint64   // the row to publish next
	waits []uint64 // ends of the chunks not acknowledged yet, oldest first
}

// publish sends rows as they appear and keeps up to relayWindow chunks under
// way. It returns only with an error.
func (s *relaySession) publish(ctx context.Context) error {
	source := s.relay.source
	for {
		changed := source.Changed(s.next - 1)
		events, err := source.Events(ctx, s.next-1, relayChunk)
		if err != nil {
			return fmt.Errorf("read journal after %d: %w", s.next-1, err)
		}
		switch {
		case len(events) > 0:
			if err := s.send(events); err != nil {
				return err
			}
			failpoint.Reached(ctx, "relay.sent")
			for len(s.waits) >= 2*relayWindow {
				if err := s.awaitAck(ctx); err != nil {
					return err
				}
			}
		case len(s.waits) > 0:
			if err := s.awaitAck(ctx); err != nil {
				return err
			}
		default:
			select {
			case <-changed:
			case status := <-s.lost:
				return fmt.Errorf("connection is %s", status)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// send publishes one chunk and asks for one acknowledgement.
func (s *relaySession) send(events []Event) error {
	for n := range events {
		event := &events[n]
		if event.Seq != s.next {
			return fmt.Errorf("the journal gave row %d where %d follows", event.Seq, s.next)
		}
		msg, err := eventMessage(s.relay.account, event)
		if err != nil {
			return err
		}
		expectLast(msg, event.Seq-1)
		if n == 0 || n == len(events)-1 {
			msg.Reply = s.inbox
			s.waits = append(s.waits, event.Seq)
		}
		if event.ReplyTo != "" { // before the event: a runner that ends between the two sends both again
			if err := s.relay.queue.Answer(s.relay.account, event.ReplyTo, event.Reply); err != nil {
				return fmt.Errorf("answer of journal row %d: %w", event.Seq, err)
			}
			s.relay.early.add(event.ReplyTo, event.Reply)
		}
		if err := s.relay.queue.nc.PublishMsg(msg); err != nil {
			return fmt.Errorf("publish journal row %d: %w", event.Seq, err)
		}
		s.next++
	}
	return nil
}

// awaitAck takes the acknowledgement of the oldest chunk under way. They come
// in the order of publication: one stream, one connection.
func (s *relaySession) awaitAck(ctx context.Context) error {
	wait, cancel := context.WithTimeout(ctx, relayAckTimeout)
	defer cancel()
	reply, err := s.acks.NextMsgWithContext(wait)
	if err != nil {
		if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("no acknowledgement of journal row %d in %s", s.waits[0], relayAckTimeout)
		}
		return err
	}
	if len(reply.Data) == 0 && reply.Header.Get("Status") == "503" {
		return fmt.Errorf("publish journal row %d: %w", s.waits[0], nats.ErrNoResponders)
	}
	ack, err := parseAck(reply.Data)
	if err != nil {
		return fmt.Errorf("publish journal row %d: %w", s.waits[0], err)
	}
	if ack.Sequence != s.waits[0] {
		return fmt.Errorf("journal row %d was stored as message %d", s.waits[0], ack.Sequence)
	}
	s.relay.setPublished(s.waits[0])
	s.waits = s.waits[1:]
	return nil
}
