package intake

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"perennial/ledger/sleep"
	"perennial/queue"
	"perennial/queue/streams"
)

func lineConsumer(ctx context.Context, js *queue.JetStream, account string, line queue.Line) (jetstream.Consumer, error) {
	return js.CreateOrUpdateConsumer(ctx, queue.CommandsStream(account), streams.LineConfig(account, line))
}

// forgetDeliveries deletes consumers with deliveries that an earlier runner never acknowledged.
// Otherwise these commands would be redelivered only after a minute. The commands stay in the
// stream.
func forgetDeliveries(ctx context.Context, js *queue.JetStream, account string) error {
	if err := deleteConsumer(ctx, js, account, formerConsumer); err != nil {
		return err
	}
	for _, line := range queue.Lines() {
		if err := forgetConsumer(ctx, js, account, line); err != nil {
			return err
		}
	}
	return nil
}

// forgetConsumer deletes a consumer that has unacknowledged deliveries, or that lacks
// commands of the stream (see [RenewConsumers]).
func forgetConsumer(ctx context.Context, js *queue.JetStream, account string, line queue.Line) error {
	consumer, err := js.Consumer(ctx, queue.CommandsStream(account), streams.ConsumerOf(line))
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if consumer.CachedInfo().NumAckPending == 0 {
		if lacks, err := lacking(ctx, js, account, line); err != nil || lacks == 0 {
			return err
		}
	}
	return deleteConsumer(ctx, js, account, streams.ConsumerOf(line))
}

func deleteConsumer(ctx context.Context, js *queue.JetStream, account, name string) error {
	err := js.DeleteConsumer(ctx, queue.CommandsStream(account), name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil
	}
	return err
}

// reopen returns the line's consumer. After a reconnect it first deletes a consumer with
// unacknowledged deliveries. Otherwise deliveries that were lost with the connection would be
// repeated only after a minute. A command that the runner is still processing is delivered a
// second time.
func (i *lineIntake) reopen(ctx context.Context, connected uint64) (jetstream.Consumer, error) {
	if i.js.Conn().Stats().Reconnects != connected {
		if err := forgetConsumer(ctx, i.js, i.account, i.line); err != nil {
			return nil, err
		}
	}
	return lineConsumer(ctx, i.js, i.account, i.line)
}

const (
	// compareTries is how often in a row a consumer must lack commands before it is renewed. The
	// stream and the consumer are read separately, so commands can come and go between the two
	// reads.
	compareTries = 3
	compareEvery = 500 * time.Millisecond
)

// RenewConsumers compares each line's consumer with the stream. The consumer must have each
// command of the line that is in the stream, either undelivered or unacknowledged. After a power
// cut a consumer may lack commands that the stream has. Such a consumer is deleted, and the next
// consumer of the line delivers all commands. A command that the runner is still processing is
// delivered a second time. RenewConsumers returns how many consumers were deleted.
func RenewConsumers(ctx context.Context, js *queue.JetStream, account string) (renewed int, err error) {
	for _, line := range queue.Lines() {
		lacks, err := lacking(ctx, js, account, line)
		for n := 1; n < compareTries && lacks > 0 && err == nil; n++ {
			if err = sleep.For(ctx, compareEvery); err == nil {
				var again uint64
				again, err = lacking(ctx, js, account, line)
				lacks = min(lacks, again)
			}
		}
		if err != nil {
			return renewed, fmt.Errorf("compare the consumer %s of account %s with its stream: %w", streams.ConsumerOf(line), account, err)
		}
		if lacks == 0 {
			continue
		}
		js.Log().WithField("account", account).WithField("consumer", streams.ConsumerOf(line)).
			Warnf("%d commands on the stream would never have been delivered, as after a power cut: the consumer is made again", lacks)
		if err := deleteConsumer(ctx, js, account, streams.ConsumerOf(line)); err != nil {
			return renewed, err
		}
		renewed++
	}
	return renewed, nil
}

// lacking compares a line's consumer with the stream. It returns how many commands the consumer
// lacks. Changes between the reads do not count.
func lacking(ctx context.Context, js *queue.JetStream, account string, line queue.Line) (uint64, error) {
	before, err := undelivered(ctx, js, account, line)
	if err != nil {
		return 0, err
	}
	stream, err := js.Stream(ctx, queue.CommandsStream(account))
	if err != nil {
		return 0, err
	}
	subject := line.Subject(account)
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(subject))
	if err != nil {
		return 0, err
	}
	after, err := undelivered(ctx, js, account, line)
	if err != nil {
		return 0, err
	}
	stored, known := min(info.State.Subjects[subject], info.State.Msgs), max(before, after) // a server may count commands that it no longer has
	return stored - min(stored, known), nil
}

// Waiting returns how many commands are in the account's stream. A command stays there until the
// ledger has it and it is acknowledged.
func Waiting(ctx context.Context, js *queue.JetStream, account string) (uint64, error) {
	stream, err := js.Stream(ctx, queue.CommandsStream(account))
	if err != nil {
		return 0, err
	}
	return stream.CachedInfo().State.Msgs, nil
}

// undelivered returns how many commands a line's consumer has not delivered, or delivered
// without an acknowledgement. It returns the maximum if there is no consumer yet.
func undelivered(ctx context.Context, js *queue.JetStream, account string, line queue.Line) (uint64, error) {
	consumer, err := js.Consumer(ctx, queue.CommandsStream(account), streams.ConsumerOf(line))
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return ^uint64(0), nil
	}
	if err != nil {
		return 0, err
	}
	info := consumer.CachedInfo()
	return info.NumPending + uint64(info.NumAckPending), nil
}
