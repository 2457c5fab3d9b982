package intake

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"perennial/ledger/sleep"
	"perennial/queue"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// formerConsumer is the single consumer that earlier versions used for all lines. It is
	// deleted, because a work queue allows only one consumer per subject.
	formerConsumer = "perennial"
	// pullMessages limits the commands that the server sends ahead. intakeBuffer limits the
	// commands that wait for Fetch. Together they limit the memory that a backlog uses.
	pullMessages = 256
	intakeBuffer = 256
)

// ErrIntakeClosed is returned by [Intake.Fetch] after [Intake.Close].
var ErrIntakeClosed = errors.New("intake is closed")

// Message is one delivery of a command. Ack or Nak ends it. Without either, the command is
// delivered again after a minute.
type Message struct {
	Subject        string
	Kind           queue.Kind
	Priority       queue.Priority // priority of its line
	Data           []byte
	Header         nats.Header
	StreamSequence uint64
	Delivered      uint64    // number of deliveries of this command, including this one
	Published      time.Time // when the stream stored it, in UTC

	delivery Delivery
}

// Delivery acknowledges or returns one delivery.
type Delivery interface {
	Ack() error
	Nak(delay time.Duration) error
}

// NewMessage returns m with a delivery. It is for streams that are not JetStream's, such as the
// stream of queuetest.
func NewMessage(m Message, d Delivery) Message {
	m.delivery = d
	return m
}

// Ack says that the command is in the ledger and need not be delivered again. It does not wait
// for the server. If an acknowledgement is lost, the command is delivered again.
// Acknowledgements are combined for about 50 ms; see acks.
func (m *Message) Ack() error { return m.delivery.Ack() }

// Nak asks for another delivery after delay.
func (m *Message) Nak(delay time.Duration) error { return m.delivery.Nak(delay) }

type delivered struct {
	seq   uint64
	msg   jetstream.Msg
	acks  *acks
	entry *tracked
}

func (d *delivered) Ack() error { return d.acks.ack(d.entry, d.msg) }

func (d *delivered) Nak(delay time.Duration) error { return d.acks.putBack(d.seq, d.msg, delay) }

// Intake takes an account's commands from their stream, separately for each line. It keeps at
// most a few hundred commands of a line in memory. It continues after reconnects, server
// restarts and the deletion of its consumers.
type Intake struct{ lines map[queue.Line]*lineIntake }

type lineIntake struct {
	js      *queue.JetStream
	account string
	line    queue.Line
	buffer  chan Message
	stop    context.CancelFunc
	over    chan struct{} // closed when no more commands arrive
	done    chan struct{}
	acks    *acks

	wake chan struct{} // signals that a Fetch ended the rest

	mu    sync.Mutex
	rests bool
	rest  context.CancelFunc // ends the current consume; nil if there is none
	last  error              // why the intake ended; nil after Close
}

// Open starts to take an account's commands, in the order of publication within each line.
// ctx limits only the start; the intake runs until [Intake.Close]. The streams must exist;
// see streams.Wanted.Ensure. Only one intake may run at a time. Commands that an earlier
// intake left unacknowledged are delivered again immediately.
func Open(ctx context.Context, js *queue.JetStream, account string) (*Intake, error) {
	if err := queue.ValidAccount(account); err != nil {
		return nil, err
	}
	if err := forgetDeliveries(ctx, js, account); err != nil {
		return nil, fmt.Errorf("take commands of account %s: %w", account, err)
	}
	return openShared(ctx, js, account)
}

// openShared is like Open, but keeps the consumers, because another intake may use them.
func openShared(ctx context.Context, js *queue.JetStream, account string) (*Intake, error) {
	all := &Intake{lines: map[queue.Line]*lineIntake{}}
	for _, line := range queue.Lines() {
		l, err := openLine(ctx, js, account, line)
		if err != nil {
			all.Close()
			return nil, fmt.Errorf("take commands of account %s: %w", account, err)
		}
		all.lines[line] = l
	}
	return all, nil
}

func openLine(ctx context.Context, js *queue.JetStream, account string, line queue.Line) (*lineIntake, error) {
	consumer, err := lineConsumer(ctx, js, account, line)
	if err != nil {
		return nil, err
	}
	stream, err := js.Stream(ctx, queue.CommandsStream(account))
	if err != nil {
		return nil, err
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	i := &lineIntake{
		js: js, account: account, line: line, stop: stop, rests: true, wake: make(chan struct{}, 1),
		buffer: make(chan Message, intakeBuffer), over: make(chan struct{}), done: make(chan struct{}),
	}
	i.acks = newAcks(js, account, line, stream)
	go i.run(run, consumer)
	return i, nil
}

// Fetch returns at least one command of a line, and at most limit of those available. It
// blocks until there is one. The error is ctx's, [ErrIntakeClosed], or why the intake
// ended.
func (i *Intake) Fetch(ctx context.Context, line queue.Line, limit int) ([]Message, error) {
	l := i.lines[line]
	l.resume()
	return l.fetch(ctx, limit)
}

// Rest stops the delivery of a line's commands until the next Fetch, and returns commands that
// the server sent ahead. While a line rests, its commands are neither kept in memory nor
// redelivered every minute.
func (i *Intake) Rest(line queue.Line) { i.lines[line].pause() }

// Close stops taking commands, sends the delayed acknowledgements, and returns when all
// work has ended. Commands that were fetched can still be acknowledged; the others are
// delivered again immediately.
func (i *Intake) Close() {
	for _, l := range i.lines {
		l.stop()
	}
	for _, l := range i.lines {
		<-l.done
	}
}

func (i *lineIntake) resume() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.rests {
		i.rests = false
		signal(i.wake)
	}
}

func (i *lineIntake) pause() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.rests = true
	if i.rest != nil {
		i.rest()
	}
}

// awake waits for a call of Fetch. It returns a context that ends with the next call of Rest.
func (i *lineIntake) awake(ctx context.Context) (context.Context, error) {
	for {
		i.mu.Lock()
		if !i.rests {
			var wanted context.Context
			wanted, i.rest = context.WithCancel(ctx)
			i.mu.Unlock()
			return wanted, nil
		}
		i.mu.Unlock()
		select {
		case <-i.wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (i *lineIntake) fetch(ctx context.Context, limit int) ([]Message, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var messages []Message
	select {
	case message := <-i.buffer:
		messages = append(make([]Message, 0, min(max(limit, 1), len(i.buffer)+1)), message)
	case <-i.over:
		return nil, i.ended()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for len(messages) < limit {
		select {
		case message := <-i.buffer:
			messages = append(messages, message)
		default:
			return messages, nil
		}
	}
	return messages, nil
}

func (i *lineIntake) ended() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.last != nil {
		return i.last
	}
	return ErrIntakeClosed
}

func (i *lineIntake) run(ctx context.Context, consumer jetstream.Consumer) {
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
	close(i.over) // the buffer is never closed, because a delivery may arrive late
	i.giveBack()
	close(i.done)
}

// giveBack empties the buffer. Its commands are delivered again, to another intake or later
// to this one.
func (i *lineIntake) giveBack() {
	for {
		select {
		case message := <-i.buffer:
			_ = message.Nak(0)
		default:
			return
		}
	}
}

// supervise fills the buffer from a consumer. When the consumer is lost, it creates a new one.
// The delay grows while that fails.
func (i *lineIntake) supervise(ctx context.Context, consumer jetstream.Consumer) error {
	delay := sleep.Growing(50*time.Millisecond, 5*time.Second)
	for {
		wanted, err := i.awake(ctx)
		if err != nil {
			return err
		}
		connected := i.js.Conn().Stats().Reconnects
		err = i.consume(wanted, consumer)
		rested := wanted.Err() != nil
		i.rest()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if rested {
			i.giveBack()
			continue
		}
		for {
			if errors.Is(err, nats.ErrConnectionClosed) {
				return err
			}
			i.js.Log().WithField("account", i.account).WithError(err).Warn("intake begins again")
			if err := delay.Wait(ctx); err != nil {
				return err
			}
			if consumer, err = i.reopen(ctx, connected); err == nil {
				i.acks.begin()
				delay.Reset()
				break
			}
		}
	}
}

func (i *lineIntake) take(ctx context.Context, msg jetstream.Msg) {
	message, err := i.message(msg)
	if err != nil {
		i.js.Log().WithError(err).Error("a delivery without metadata is left alone")
		return
	}
	if ctx.Err() == nil {
		select {
		case i.buffer <- message:
			return
		case <-ctx.Done():
		}
	}
	_ = message.Nak(0)
}

// consume fills the buffer from one consumer until that consumer or ctx ends. A full buffer
// blocks the subscription, so that the server sends no more.
func (i *lineIntake) consume(ctx context.Context, consumer jetstream.Consumer) error {
	broken := make(chan error, 1)
	consuming, err := consumer.Consume(func(msg jetstream.Msg) { i.take(ctx, msg) }, jetstream.PullMaxMessages(pullMessages),
		jetstream.PullExpiry(5*time.Second), jetstream.PullHeartbeat(2*time.Second),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
			select {
			case broken <- err:
			default:
			}
		}))
	if err != nil {
		return err
	}
	closed := consuming.Closed()
	// Drain instead of stopping, because commands that were sent ahead would be delivered
	// again only after a minute. The wait is limited, because a lost connection never
	// drains.
	defer func() {
		consuming.Drain()
		bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		select {
		case <-closed:
		case <-bound.Done():
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err = <-broken:
			if lost(ctx, consumer, err) {
				return err
			}
		case <-closed:
			return jetstream.ErrConsumerDeleted
		}
	}
}

// lost reports whether an error of the consumer means that it must be created again. Missed
// heartbeats may mean that the consumer was deleted, or only that the server is busy. If the
// server is only busy, the client library requests messages again.
func lost(ctx context.Context, consumer jetstream.Consumer, err error) bool {
	switch {
	case errors.Is(err, jetstream.ErrConsumerLeadershipChanged):
		return false
	case errors.Is(err, jetstream.ErrNoHeartbeat):
		limited, cancel := context.WithTimeout(ctx, queue.PublishTimeout)
		defer cancel()
		_, err = consumer.Info(limited)
		return errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound)
	}
	return true
}

func (i *lineIntake) message(msg jetstream.Msg) (Message, error) {
	meta, err := msg.Metadata()
	if err != nil {
		return Message{}, err
	}
	message := Message{
		Subject: msg.Subject(), Kind: i.line.Kind, Priority: i.line.Priority, Data: msg.Data(), Header: msg.Headers(),
		StreamSequence: meta.Sequence.Stream, Delivered: meta.NumDelivered, Published: meta.Timestamp.UTC(),
	}
	message.delivery = &delivered{seq: meta.Sequence.Stream, msg: msg, acks: i.acks, entry: i.acks.track(meta, msg)}
	return message, nil
}
