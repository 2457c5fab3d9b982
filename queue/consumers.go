// The durable consumers of the commands stream, one for each line.

package queue

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go/jetstream"
)

func (q *Queue) lineConsumer(ctx context.Context, account string, line Line) (jetstream.Consumer, error) {
	return q.js.CreateOrUpdateConsumer(ctx, CommandsStream(account), jetstream.ConsumerConfig{
		Durable:       line.consumer(),
		Description:   "Perennial's intake",
		FilterSubject: line.Subject(account),
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       ackWait,
		MaxDeliver:    -1,
		MaxAckPending: maxAckPending,
		MaxWaiting:    32,
	})
}

// forgetDeliveries removes consumers with deliveries to a runner that is gone: those
// commands would be delivered again only after a minute. They stay in the stream.
func (q *Queue) forgetDeliveries(ctx context.Context, account string) error {
	if err := q.deleteConsumer(ctx, account, formerConsumer); err != nil {
		return err
	}
	for _, line := range Lines() {
		if err := q.forgetConsumer(ctx, account, line); err != nil {
			return err
		}
	}
	return nil
}

// forgetConsumer deletes a consumer that has deliveries out, or that lacks commands of
// the stream (see RenewConsumers).
func (q *Queue) forgetConsumer(ctx context.Context, account string, line Line) error {
	consumer, err := q.js.Consumer(ctx, CommandsStream(account), line.consumer())
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if consumer.CachedInfo().NumAckPending == 0 {
		if lacks, err := q.lacking(ctx, account, line); err != nil || lacks == 0 {
			return err
		}
	}
	return q.deleteConsumer(ctx, account, line.consumer())
}

// deleteConsumer deletes a consumer, if there is one.
func (q *Queue) deleteConsumer(ctx context.Context, account, name string) error {
	err := q.js.DeleteConsumer(ctx, CommandsStream(account), name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil
	}
	return err
}

// reopen makes the consumer anew. Deliveries that were on their way when the connection
// was lost would come again only after a minute; a new consumer delivers them at once.
// Commands that the runner still holds are delivered twice.
func (i *lineIntake) reopen(ctx context.Context, connected uint64) (jetstream.Consumer, error) {
	if i.queue.nc.Stats().Reconnects != connected {
		if err := i.queue.forgetConsumer(ctx, i.account, i.line); err != nil {
			return nil, err
		}
	}
	return i.queue.lineConsumer(ctx, i.account, i.line)
}
