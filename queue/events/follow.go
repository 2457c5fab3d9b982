// This file follows the events stream: all events, live events, and the last event.

package events

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"

	"perennial/ledger/sleep"
	"perennial/queue"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// HeaderSeq and HeaderHash are headers with the sequence and hash of an event's journal
	// row. An outbox finds its position with them without reading bodies.
	HeaderSeq  = "Perennial-Seq"
	HeaderHash = "Perennial-Hash"
)

// Stream reads the events stream of one account.
type Stream struct {
	js      *queue.JetStream
	account string
}

// Of returns the events stream of an account.
func Of(js *queue.JetStream, account string) Stream { return Stream{js, account} }

// From says where [Stream.Follow] starts. If New is set, it starts with the next event to be
// published, otherwise at stream sequence Seq. 0 and 1 both mean the first event in the
// stream. If Types is set, such as "order.delivered" or "order.*", other events are left
// out.
type From struct {
	Seq   uint64
	New   bool
	Types []string
}

// Event is an event in the stream. Seq and Hash are those of the journal row. Seq is 0 for
// a message that no outbox published.
type Event struct {
	StreamSeq uint64
	Subject   string
	Type      string // such as "order.delivered"
	Data      []byte // CloudEvents JSON
	Seq       uint64
	Hash      string
}

// Follow yields an account's events in order, and waits for more, until ctx ends or the
// caller stops. Across lost connections no event is left out or repeated. It ends after it
// has yielded an error: ctx's, or one that a retry does not fix, such as a missing stream
// ([queue.ErrNoAccount]). An error before the first event ends it, unless there is no
// connection.
func (s Stream) Follow(ctx context.Context, from From) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		var next uint64 // 0 until the first event is known
		delay := sleep.Growing(50*time.Millisecond, 5*time.Second)
		for {
			var stopped bool
			var err error
			if next == 0 {
				next, err = s.firstWatched(ctx, from)
			}
			if err == nil {
				stopped, err = s.watch(ctx, from.Types, &next, delay, yield)
			}
			if stopped {
				return
			}
			if ctx.Err() == nil && !permanent(err) && (next > 0 || queue.Disconnected(err)) {
				s.js.Log().WithError(err).WithField("account", s.account).Debug("watching events begins again")
				err = delay.Wait(ctx)
			}
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			if err != nil {
				yield(Event{}, err)
				return
			}
		}
	}
}

// Live yields an account's events of the given types as they are published. It uses a plain
// subscription, which costs the server less than Follow. Events that are published while the
// connection is down are left out. The subscription ends with the iteration, so the caller
// must iterate.
func (s Stream) Live(ctx context.Context, types ...string) (iter.Seq2[Event, error], error) {
	if err := queue.ValidAccount(s.account); err != nil {
		return nil, err
	}
	messages := make(chan *nats.Msg, liveBuffer)
	var subs []*nats.Subscription
	stop := func() {
		for _, sub := range subs {
			_ = sub.Unsubscribe()
		}
	}
	for _, t := range types {
		sub, err := s.js.Conn().ChanSubscribe(queue.EventSubject(s.account, t), messages)
		if err != nil {
			stop()
			return nil, fmt.Errorf("subscribe to %s of account %s: %w", t, s.account, err)
		}
		subs = append(subs, sub)
	}
	if err := s.js.Conn().FlushTimeout(queue.PublishTimeout); err != nil {
		stop()
		return nil, err
	}
	return func(yield func(Event, error) bool) {
		defer stop()
		for {
			select {
			case m := <-messages:
				if !yield(received(s.account, m.Subject, 0, m.Header, m.Data), nil) {
					return
				}
			case <-ctx.Done():
				yield(Event{}, ctx.Err())
				return
			}
		}
	}, nil
}

// liveBuffer is how many events may wait for the reader. The client drops further events,
// as for every plain subscription.
const liveBuffer = 65536

// PullAhead limits how many events the server sends before they are read.
const PullAhead = 256

// PullHeartbeat is how often the server confirms a consumer while there is nothing to
// deliver. After two missing heartbeats the consumer is created again.
const PullHeartbeat = time.Second

// permanent reports whether a retry would fail too.
func permanent(err error) bool {
	return errors.Is(err, queue.ErrNoAccount) || errors.Is(err, nats.ErrConnectionClosed)
}

// Last returns the last event in an account's stream. found is false if there is none.
func (s Stream) Last(ctx context.Context) (event Event, found bool, err error) {
	stream, err := s.stream(ctx)
	if err != nil {
		return Event{}, false, err
	}
	msg, err := stream.GetLastMsgForSubject(ctx, queue.EventSubject(s.account, ">"))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return Event{}, false, nil
	}
	if err != nil {
		return Event{}, false, fmt.Errorf("last event of account %s: %w", s.account, err)
	}
	return received(s.account, msg.Subject, msg.Sequence, msg.Header, msg.Data), true, nil
}

func (s Stream) stream(ctx context.Context) (jetstream.Stream, error) {
	return queue.StreamOf(ctx, s.js, s.account, queue.EventsStream(s.account), "events stream")
}

// firstWatched returns the sequence of the first event. It also converts New to a sequence,
// so that a later reconnect leaves no event out.
func (s Stream) firstWatched(ctx context.Context, from From) (uint64, error) {
	stream, err := s.stream(ctx)
	if err != nil {
		return 0, err
	}
	if from.New {
		return stream.CachedInfo().State.LastSeq + 1, nil
	}
	return max(from.Seq, 1), nil
}

// watch yields events starting at *next until something fails. stopped is true if the
// caller wants no more events.
func (s Stream) watch(ctx context.Context, types []string, next *uint64, delay *sleep.Backoff, yield func(Event, error) bool) (stopped bool, err error) {
	if _, err := s.stream(ctx); err != nil {
		return false, err
	}
	var filter []string
	for _, t := range types {
		filter = append(filter, queue.EventSubject(s.account, t))
	}
	consumer, err := s.js.OrderedConsumer(ctx, queue.EventsStream(s.account), jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: *next,
		FilterSubjects: filter, InactiveThreshold: 30 * time.Second,
	})
	if err != nil {
		return false, err
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(PullAhead), jetstream.PullHeartbeat(PullHeartbeat))
	if err != nil {
		return false, err
	}
	defer messages.Stop()
	for {
		msg, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return false, err
		}
		meta, err := msg.Metadata()
		if err != nil {
			return false, err
		}
		if meta.Sequence.Stream < *next {
			continue
		}
		*next = meta.Sequence.Stream + 1
		delay.Reset()
		if !yield(received(s.account, msg.Subject(), meta.Sequence.Stream, msg.Headers(), msg.Data()), nil) {
			return true, nil
		}
	}
}

func received(account, subject string, streamSeq uint64, header nats.Header, data []byte) Event {
	event := Event{StreamSeq: streamSeq, Subject: subject, Type: queue.EventTypeOf(account, subject),
		Data: data, Hash: header.Get(HeaderHash)}
	if seq, err := strconv.ParseUint(header.Get(HeaderSeq), 10, 64); err == nil {
		event.Seq = seq
	}
	return event
}
