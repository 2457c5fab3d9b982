package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"perennial/ledger/sleep"
	"perennial/queue"
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
// published. Otherwise it starts at stream sequence Seq. 0 and 1 both mean the first event in
// the stream. If Types is set, such as "order.delivered" or "order.*", other events are left
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

// Follow yields an account's events in order, and waits for more, until ctx ends or the caller
// stops. Across lost connections no event is left out or repeated. It ends after it has yielded
// an error: ctx's, or one that a retry does not fix, such as a missing stream
// ([queue.ErrNoAccount]). Before the start of the iteration is known, every error except a lost
// connection ends it.
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

// liveBuffer is how many events may wait for the reader. The client library drops further
// events, because this is a plain subscription.
const liveBuffer = 65536

// PullAhead limits how many events the server sends before they are read.
const PullAhead = 256

// PullHeartbeat is how often the server confirms a consumer while there is nothing to
// deliver. After two missing heartbeats the consumer is created again.
const PullHeartbeat = time.Second

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

// firstWatched returns the sequence of the first event. If From.New is set, this is the sequence
// of the next event to be published. A later reconnect then leaves no event out.
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

// LastRow returns the last message of an account's events stream, as the stream's leader has it.
// found is false if there is none. A message that no outbox wrote has Seq 0. The error is
// [queue.ErrNoAccount] if the stream does not exist. It is a [queue.DeniedError] if the user has
// no permission. Otherwise it is an error from NATS, such as no reply within 3 s.
func (s Stream) LastRow(ctx context.Context) (event Event, found bool, err error) {
	return s.leaderRow(ctx, messageRequest{LastBySubject: queue.EventSubject(s.account, ">")})
}

// RowAt returns the message with the given sequence in an account's events stream, as the
// stream's leader has it. found is false if there is none. The errors are those of LastRow.
func (s Stream) RowAt(ctx context.Context, seq uint64) (event Event, found bool, err error) {
	if seq == 0 { // the server does not accept 0
		return Event{}, false, queue.ValidAccount(s.account)
	}
	return s.leaderRow(ctx, messageRequest{Seq: seq})
}

type messageRequest struct {
	Seq           uint64 `json:"seq,omitempty"`
	LastBySubject string `json:"last_by_subj,omitempty"`
}

type messageAnswer struct {
	Error   *jetstream.APIError `json:"error"`
	Message *struct {
		Subject string `json:"subject"`
		Seq     uint64 `json:"seq"`
		Header  []byte `json:"hdrs"`
		Data    []byte `json:"data"`
	} `json:"message"`
}

func (s Stream) leaderRow(ctx context.Context, want messageRequest) (Event, bool, error) {
	if err := queue.ValidAccount(s.account); err != nil {
		return Event{}, false, err
	}
	var answer messageAnswer
	if err := s.js.Ask(ctx, "STREAM.MSG.GET."+queue.EventsStream(s.account), want, &answer); err != nil {
		return Event{}, false, fmt.Errorf("events of account %s: %w", s.account, err)
	}
	switch {
	case answer.Error != nil && answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return Event{}, false, nil
	case answer.Error != nil:
		return Event{}, false, leaderError(s.account, answer.Error)
	case answer.Message == nil:
		return Event{}, false, fmt.Errorf("events of account %s: an answer without a message", s.account)
	}
	m := answer.Message
	header := nats.Header{}
	if len(m.Header) > 0 {
		var err error
		if header, err = nats.DecodeHeadersMsg(m.Header); err != nil {
			return Event{}, false, fmt.Errorf("event %d of account %s: %w", m.Seq, s.account, err)
		}
	}
	return received(s.account, m.Subject, m.Seq, header, m.Data), true, nil
}

// Info returns the leader's information about an account's events stream.
func (s Stream) Info(ctx context.Context) (*jetstream.StreamInfo, error) {
	var answer struct {
		Error *jetstream.APIError `json:"error"`
		jetstream.StreamInfo
	}
	if err := s.js.Ask(ctx, "STREAM.INFO."+queue.EventsStream(s.account), nil, &answer); err != nil {
		return nil, fmt.Errorf("events of account %s: %w", s.account, err)
	}
	if answer.Error != nil {
		return nil, leaderError(s.account, answer.Error)
	}
	return &answer.StreamInfo, nil
}

func leaderError(account string, refused *jetstream.APIError) error {
	if errors.Is(refused, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("account %s: %w: it has no events stream", account, queue.ErrNoAccount)
	}
	return fmt.Errorf("events of account %s: %w", account, refused)
}
