package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// intakeConsumer is the durable consumer's name on every commands stream.
	intakeConsumer = "perennial"
	// ackWait is after how long an unacknowledged command is delivered again.
	ackWait = time.Minute
	// maxAckPending bounds the commands handed out and not acknowledged.
	// It is beyond what a runner holds, and no bound on memory: the server sends
	// only what was asked for.
	maxAckPending = 65536
	// pullMessages bounds what the server has sent ahead, and intakeBuffer what
	// waits for Fetch: together they bound the memory that a backlog costs.
	pullMessages = 256
	intakeBuffer = 256
)

// Message is one delivery of a command. Either Ack or Nak ends it; without one it
// is delivered again after a minute.
type Message struct {
	Subject        string
	Kind           string // order.create or proxy.renew
	Data           []byte
	Header         nats.Header
	StreamSequence uint64
	Delivered      uint64    // how often this command was delivered, this time included
	Published      time.Time // when the stream stored it, UTC

	delivery Delivery
}

// Delivery is how a stream hears of the end of one delivery.
type Delivery interface {
	Ack() error
	Nak(delay time.Duration) error
}

// NewMessage is a message of another stream than JetStream's, such as the one of
// queuetest.
func NewMessage(m Message, d Delivery) Message {
	m.delivery = d
	return m
}

// Ack says that the command is in the ledger and need not be delivered again.
// It does not wait for the server: an acknowledgement that is lost costs one
// more delivery. Acknowledgements are gathered for some 50 ms, see acks.
func (m *Message) Ack() error { return m.delivery.Ack() }

// Nak asks for another delivery after delay, at once when delay is zero.
func (m *Message) Nak(delay time.Duration) error { return m.delivery.Nak(delay) }

// delivered is a delivery of JetStream's.
type delivered struct {
	seq   uint64
	msg   jetstream.Msg
	acks  *acks
	entry *tracked
}

// Ack hands the acknowledgement to those that are gathered.
func (d *delivered) Ack() error { return d.acks.ack(d.entry, d.msg) }

// Nak puts the command back.
func (d *delivered) Nak(delay time.Duration) error { return d.acks.putBack(d.seq, d.msg, delay) }

// Intake takes an account's commands off their stream. At most a few hundred
// are in memory, however many wait. It outlives reconnects, server restarts
// and the deletion of its consumer.
type Intake struct {
	queue   *Queue
	account string
	buffer  chan Message
	stop    context.CancelFunc
	done    chan struct{}
	acks    *acks

	mu   sync.Mutex
	last error // why the intake ended; nil after Close
}

// Commands starts taking an account's commands, in the order of publication.
// ctx bounds only the start; the intake runs until [Intake.Close]. Streams
// must exist, see [Queue.EnsureStreams]. One intake at a time: what an earlier
// one left unacknowledged is delivered again at once.
func (q *Queue) Commands(ctx context.Context, account string) (*Intake, error) {
	if err := ValidAccount(account); err != nil {
		return nil, err
	}
	if err := q.forgetDeliveries(ctx, account); err != nil {
		return nil, fmt.Errorf("take commands of account %s: %w", account, err)
	}
	return q.openIntake(ctx, account)
}

// forgetDeliveries removes a consumer that has commands out with a runner that
// is gone: they would come again only after a minute. The commands themselves
// are the stream's and stay.
func (q *Queue) forgetDeliveries(ctx context.Context, account string) error {
	consumer, err := q.js.Consumer(ctx, CommandsStream(account), intakeConsumer)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil
	}
	if err != nil || consumer.CachedInfo().NumAckPending == 0 {
		return err
	}
	err = q.js.DeleteConsumer(ctx, CommandsStream(account), intakeConsumer)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil
	}
	return err
}

// openIntake shares the consumer with whoever else uses it.
func (q *Queue) openIntake(ctx context.Context, account string) (*Intake, error) {
	consumer, err := q.intakeConsumer(ctx, account)
	if err != nil {
		return nil, fmt.Errorf("take commands of account %s: %w", account, err)
	}
	stream, err := q.js.Stream(ctx, CommandsStream(account))
	if err != nil {
		return nil, fmt.Errorf("take commands of account %s: %w", account, err)
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	intake := &Intake{
		queue: q, account: account, stop: stop,
		buffer: make(chan Message, intakeBuffer), done: make(chan struct{}),
	}
	intake.acks = newAcks(q, account, stream.CachedInfo().Created)
	go intake.run(run, consumer)
	return intake, nil
}

func (q *Queue) intakeConsumer(ctx context.Context, account string) (jetstream.Consumer, error) {
	return q.js.CreateOrUpdateConsumer(ctx, CommandsStream(account), jetstream.ConsumerConfig{
		Durable:       intakeConsumer,
		Description:   "Perennial's intake",
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       ackWait,
		MaxDeliver:    -1,
		MaxAckPending: maxAckPending,
		MaxWaiting:    32,
	})
}

// Fetch returns at least one command and at most limit of those at hand. It
// blocks until there is one, ctx ends (its error), or the intake ends
// ([ErrIntakeClosed], or why).
func (i *Intake) Fetch(ctx context.Context, limit int) ([]Message, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var messages []Message
	select {
	case message, ok := <-i.buffer:
		if !ok {
			return nil, i.ended()
		}
		messages = append(make([]Message, 0, min(max(limit, 1), len(i.buffer)+1)), message)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for len(messages) < limit {
		select {
		case message, ok := <-i.buffer:
			if !ok {
				return messages, nil
			}
			messages = append(messages, message)
		default:
			return messages, nil
		}
	}
	return messages, nil
}

// Close stops taking commands, sends the acknowledgements still held back and
// returns when all is still. Commands fetched before can still be
// acknowledged afterwards; those not fetched are offered again at once.
func (i *Intake) Close() {
	i.stop()
	<-i.done
}

func (i *Intake) ended() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.last != nil {
		return i.last
	}
	return ErrIntakeClosed
}

// run keeps a subscription going until ctx ends or the connection is closed.
func (i *Intake) run(ctx context.Context, consumer jetstream.Consumer) {
	flushed := make(chan struct{})
	go func() {
		defer close(flushed)
		i.acks.work(ctx)
	}()
	err := i.supervise(ctx, consumer)
	i.stop()
	<-flushed
	i.mu.Lock()
	if !errors.Is(err, context.Canceled) {
		i.last = err
	}
	i.mu.Unlock()
	close(i.buffer)
	for message := range i.buffer {
		_ = message.Nak(0)
	}
	close(i.done)
}

// supervise consumes, and begins again with a new consumer when the old one
// is gone. The delay grows while that fails.
func (i *Intake) supervise(ctx context.Context, consumer jetstream.Consumer) error {
	delay := backoff.NewExponentialBackOff()
	delay.InitialInterval, delay.MaxInterval = 50*time.Millisecond, 5*time.Second
	for {
		err := i.consume(ctx, consumer)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		for {
			if errors.Is(err, nats.ErrConnectionClosed) {
				return err
			}
			i.queue.log.WithField("account", i.account).WithError(err).Warn("intake begins again")
			if err := pause(ctx, delay.NextBackOff()); err != nil {
				return err
			}
			if consumer, err = i.queue.intakeConsumer(ctx, i.account); err == nil {
				delay.Reset()
				break
			}
		}
	}
}

// consume feeds the buffer from one consumer until that ends. A full buffer
// holds the subscription up, and that holds the server up.
func (i *Intake) consume(ctx context.Context, consumer jetstream.Consumer) error {
	broken := make(chan error, 1)
	take := func(msg jetstream.Msg) {
		message, err := i.message(msg)
		if err != nil {
			i.queue.log.WithError(err).Error("a delivery without metadata is left alone")
			return
		}
		select {
		case i.buffer <- message:
		case <-ctx.Done():
			_ = msg.Nak()
		}
	}
	consuming, err := consumer.Consume(take, jetstream.PullMaxMessages(pullMessages),
		jetstream.PullExpiry(5*time.Second), jetstream.PullHeartbeat(2*time.Second),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
			// Missed heartbeats may mean that the consumer is gone as well.
			if errors.Is(err, jetstream.ErrConsumerLeadershipChanged) {
				return
			}
			select {
			case broken <- err:
			default:
			}
		}))
	if err != nil {
		return err
	}
	closed := consuming.Closed()
	// Drained, not stopped: what was sent ahead would come again only after a
	// minute. The wait is bounded, for a lost connection drains nothing.
	defer func() {
		consuming.Drain()
		bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		select {
		case <-closed:
		case <-bound.Done():
		}
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err = <-broken:
		return err
	case <-closed:
		return jetstream.ErrConsumerDeleted
	}
}

func (i *Intake) message(msg jetstream.Msg) (Message, error) {
	meta, err := msg.Metadata()
	if err != nil {
		return Message{}, err
	}
	message := Message{
		Subject: msg.Subject(), Kind: KindOf(i.account, msg.Subject()), Data: msg.Data(), Header: msg.Headers(),
		StreamSequence: meta.Sequence.Stream, Delivered: meta.NumDelivered, Published: meta.Timestamp.UTC(),
	}
	message.delivery = &delivered{seq: meta.Sequence.Stream, msg: msg, acks: i.acks, entry: i.acks.track(meta, msg)}
	return message, nil
}

// pause waits, or returns ctx's error.
func pause(ctx context.Context, delay time.Duration) error {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
