// Consumers that are made anew, so that what they have to deliver comes at once.

package intake

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go/jetstream"

	"perennial/queue"
	"perennial/queue/streams"
)

func lineConsumer(ctx context.Context, js *queue.JetStream, account string, line queue.Line) (jetstream.Consumer, error) {
	return js.CreateOrUpdateConsumer(ctx, queue.CommandsStream(account), streams.LineConfig(account, line))
}

// forgetDeliveries removes consumers with deliveries to a runner that is gone: those
// commands would be delivered again only after a minute. They stay in the stream.
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

// forgetConsumer deletes a consumer that has deliveries out, or that lacks commands of
// the stream (see [RenewConsumers]).
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

// deleteConsumer deletes a consumer, if there is one.
func deleteConsumer(ctx context.Context, js *queue.JetStream, account, name string) error {
	err := js.DeleteConsumer(ctx, queue.CommandsStream(account), name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil
	}
	return err
}

// reopen makes the consumer anew. Deliveries that were on their way when the connection
// was lost would come again only after a minute; a new consumer delivers them at once.
// Commands that the runner still holds are delivered twice.
func (i *lineIntake) reopen(ctx context.Context, connected uint64) (jetstream.Consumer, error) {
	if i.js.Conn().Stats().Reconnects != connected {
		if err := forgetConsumer(ctx, i.js, i.account, i.line); err != nil {
			return nil, err
		}
	}
	return lineConsumer(ctx, i.js, i.account, i.line)
}
