package events

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"perennial/ledger/failpoint"
	"perennial/ledger/sleep"
	"perennial/queue"
	"perennial/queue/positions"
	"perennial/queue/streams"
)

// boundTimeout limits one change of the stream, such as the removal of events. The server
// replies when the change is done.
const boundTimeout = 10 * time.Minute

// State is the state of an account's events stream. Last is 0 if the stream never had an
// event.
type State struct {
	First, Last, Messages, Bytes uint64
	// Cut means that a removal of events was interrupted. The stream accepts no events until
	// [Stream.Open] or streams.Wanted.Ensure opens it.
	Cut bool
}

// State returns the state of an account's events stream.
func (s Stream) State(ctx context.Context) (State, error) {
	stream, err := s.stream(ctx)
	if err != nil {
		return State{}, err
	}
	return eventsState(stream.CachedInfo()), nil
}

func eventsState(info *jetstream.StreamInfo) State {
	s := info.State
	return State{First: s.FirstSeq, Last: s.LastSeq, Messages: s.Msgs, Bytes: s.Bytes, Cut: streams.IsCut(info.Config)}
}

// Unread is a durable consumer of an events stream, or a webhook (see [WebhookOf]). First is
// the first event that may be unacknowledged or undelivered.
type Unread struct {
	Consumer string
	First    uint64
}

// Unread lists the durable consumers of an account's events stream that have not acknowledged
// all events. It also lists the account's webhooks that have not delivered all events. An
// ephemeral consumer stores no position and is not listed. If a consumer does not reply, Unread
// returns an error, because its position is unknown.
func (s Stream) Unread(ctx context.Context) ([]Unread, error) {
	stream, err := s.stream(ctx)
	if err != nil {
		return nil, err
	}
	names := stream.ConsumerNames(ctx)
	answer := map[string]bool{}
	for name := range names.Name() {
		answer[name] = false
	}
	infos := stream.ListConsumers(ctx)
	var all []Unread
	for info := range infos.Info() {
		answer[info.Name] = true
		if first := firstUnread(info); first > 0 {
			all = append(all, Unread{Consumer: info.Name, First: first})
		}
	}
	if err := errors.Join(names.Err(), infos.Err()); err != nil {
		return nil, fmt.Errorf("consumers of account %s's events: %w", s.account, err)
	}
	for name, answered := range answer {
		if answered {
			continue
		}
		if _, err := stream.Consumer(ctx, name); !errors.Is(err, jetstream.ErrConsumerNotFound) { // the consumer has not ended in the meantime
			return nil, errors.Join(fmt.Errorf("consumer %s of stream %s does not answer: what it has not read is not known", name, queue.EventsStream(s.account)), err)
		}
	}
	webhooks, err := s.unreadWebhooks(ctx, stream.CachedInfo().State.LastSeq)
	return append(all, webhooks...), err
}

// firstUnread returns the first event that a durable consumer may still need. It returns 0 if
// the consumer needs none.
func firstUnread(c *jetstream.ConsumerInfo) uint64 {
	switch {
	case c.Config.Durable == "", c.NumPending == 0 && c.NumAckPending == 0:
		return 0
	case c.Config.AckPolicy == jetstream.AckNonePolicy:
		return c.Delivered.Stream + 1
	default:
		return c.AckFloor.Stream + 1
	}
}

// Bounding describes a removal of events from the start of an account's stream.
type Bounding struct {
	First uint64 // the first event that stays
	// Alone is called right before the removal. It returns an error if another runner may
	// publish. Required.
	Alone func(context.Context) error
}

// Bound removes exactly the events before b.First. If it cannot, it returns an error. It
// continues even if ctx is cancelled. The caller must keep outboxes from publishing in the
// meantime. After a crash during Bound, the stream refuses events until [Stream.Open]. No other
// events are lost.
func (s Stream) Bound(ctx context.Context, b Bounding) (err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*boundTimeout)
	defer cancel()
	stream, err := s.stream(ctx)
	if err != nil {
		return err
	}
	config := streams.CutConfig(stream.CachedInfo().Config, b.First)
	closed, err := s.setLimits(ctx, config) // nothing can be published after this, so the counts stay valid
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Open(ctx)) }()
	failpoint.Reached(ctx, "archive.events_closed")
	state := eventsState(closed)
	if err := boundable(s.account, b, state); err != nil || state.First >= b.First {
		return err
	}
	if err := s.awaitCopies(ctx); err != nil {
		return err
	}
	config.MaxMsgs, config.Discard = int64(state.Last-b.First+1), jetstream.DiscardOld
	if err := b.Alone(ctx); err != nil {
		return err
	}
	cut, err := s.setLimits(ctx, config)
	if err == nil {
		err = s.awaitCopies(ctx)
	}
	if err != nil {
		return err
	}
	failpoint.Reached(ctx, "archive.events_removed")
	if is := eventsState(cut); is.First != b.First || is.Last != state.Last || is.Messages != state.Last-b.First+1 {
		return fmt.Errorf("stream %s: events %d to %d were to stay and %d to %d (%d messages) are there: check with `perennial ledger verify --against-events`",
			config.Name, b.First, state.Last, is.First, is.Last, is.Messages)
	}
	return nil
}

const (
	// copiesWithin limits the wait for the copies of the stream on other servers. A server that
	// is down delays the removal only for this time. Its copy keeps events that the other copies
	// no longer have.
	copiesWithin = 30 * time.Second
	copiesAgain  = 200 * time.Millisecond
)

// awaitCopies waits until every copy of the stream equals the leader's copy. It waits for at
// most copiesWithin. Each server applies the limit to its own copy, so a server with a lagging
// copy would remove fewer events.
func (s Stream) awaitCopies(ctx context.Context) error {
	for left := copiesWithin; left > 0; left -= copiesAgain {
		stream, err := s.stream(ctx)
		if err != nil {
			return err
		}
		if c := stream.CachedInfo().Cluster; c == nil || !slices.ContainsFunc(c.Replicas, func(p *jetstream.PeerInfo) bool { return !p.Current || p.Lag > 0 }) {
			return nil
		}
		if err := sleep.For(ctx, copiesAgain); err != nil {
			return err
		}
	}
	return nil
}

// boundable returns an error if a limit on the number of messages would not remove exactly the
// events before b.First.
func boundable(account string, b Bounding, s State) error {
	switch {
	case b.First > s.Last:
		return fmt.Errorf("events of account %s: event %d is to be the first and the stream ends with %d", account, b.First, s.Last)
	case s.Messages != s.Last-s.First+1:
		return fmt.Errorf("events of account %s: the stream counts %d messages from %d to %d: some were removed in between, by another program", account, s.Messages, s.First, s.Last)
	}
	return nil
}

func (s Stream) setLimits(ctx context.Context, config jetstream.StreamConfig) (*jetstream.StreamInfo, error) {
	limited, cancel := context.WithTimeout(ctx, boundTimeout)
	defer cancel()
	if _, err := s.js.UpdateStream(limited, config); err != nil {
		return nil, fmt.Errorf("set the limits of stream %s: %w", config.Name, err)
	}
	stream, err := s.js.Stream(limited, config.Name)
	if err != nil {
		return nil, fmt.Errorf("look up stream %s: %w", config.Name, err)
	}
	return stream.CachedInfo(), nil
}

// Open completes a Bound that was interrupted: the stream accepts events again. It removes
// nothing.
func (s Stream) Open(ctx context.Context) error {
	stream, err := s.stream(ctx)
	if err != nil {
		return err
	}
	open, cut := streams.OpenConfig(stream.CachedInfo().Config)
	if !cut {
		return nil
	}
	_, err = s.setLimits(ctx, open)
	return err
}

// webhookConsumer returns the name that stands for a webhook in a list of consumers. It contains
// a space, so it cannot be the name of a NATS consumer.
func webhookConsumer(name string) string { return "webhook " + name }

// WebhookOf returns the webhook that an [Unread].Consumer refers to. It returns "" if the
// consumer is a consumer of NATS.
func WebhookOf(consumer string) string {
	name, is := strings.CutPrefix(consumer, webhookConsumer(""))
	if !is {
		return ""
	}
	return name
}

// UnreadWebhook returns the Unread of a webhook that has not started and needs every event.
func UnreadWebhook(name string) Unread { return Unread{Consumer: webhookConsumer(name), First: 1} }

func (s Stream) unreadWebhooks(ctx context.Context, last uint64) ([]Unread, error) {
	positions, err := positions.Of(s.js, s.account).All(ctx)
	if err != nil {
		return nil, err
	}
	var all []Unread
	for _, name := range slices.Sorted(maps.Keys(positions)) {
		if p := positions[name]; p.Seq < last {
			all = append(all, Unread{Consumer: webhookConsumer(name), First: p.Seq + 1})
		}
	}
	return all, nil
}
