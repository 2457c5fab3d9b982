// The durable consumers of the commands stream, one for each line.

package queue

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

func (q *Queue) lineConsumer(ctx context.Context, account string, line Line) (jetstream.Consumer, error) {
	return q.js.CreateOrUpdateConsumer(ctx, CommandsStream(account), lineConfig(account, line))
}

func lineConfig(account string, line Line) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Name:          line.consumer(),
		Durable:       line.consumer(),
		Description:   "Perennial's intake",
		FilterSubject: line.Subject(account),
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       ackWait,
		MaxDeliver:    -1,
		MaxAckPending: maxAckPending,
		MaxWaiting:    32,
	}
}

// checkConsumers refuses a line's consumer that is paused, or has other settings. One that
// is missing is made anew by the intake. A user who may not list them leaves that to the
// runner.
func (q *Queue) checkConsumers(ctx context.Context, account string, stream jetstream.Stream) error {
	ctx, forget := q.JetStream().Allowed(ctx, q.js.api+"CONSUMER.LIST."+stream.CachedInfo().Config.Name)
	defer forget()
	infos := stream.ListConsumers(ctx)
	want := map[string]jetstream.ConsumerConfig{}
	for _, line := range Lines() {
		want[line.consumer()] = lineConfig(account, line)
	}
	var found []error
	for info := range infos.Info() {
		if ours, ok := want[info.Name]; ok {
			found = append(found, checkConsumer(info, ours))
		}
	}
	err := Denied(ctx, infos.Err())
	if _, mayNot := errors.AsType[*DeniedError](err); mayNot {
		return nil
	}
	return errors.Join(append(found, err)...)
}

// checkConsumer compares every setting but those that change nothing of what is delivered.
func checkConsumer(info *jetstream.ConsumerInfo, want jetstream.ConsumerConfig) error {
	have := info.Config
	if info.Paused {
		return &ConsumerError{Stream: info.Stream, Consumer: info.Name, Why: "is paused, and delivers no command",
			Do: fmt.Sprintf("nats consumer resume %s %s", info.Stream, info.Name)}
	}
	have.Description, have.Metadata, have.Replicas, have.PauseUntil = want.Description, want.Metadata, want.Replicas, want.PauseUntil
	if reflect.DeepEqual(have, want) {
		return nil
	}
	h, w := reflect.ValueOf(have), reflect.ValueOf(want)
	for i := range h.NumField() {
		if a, b := h.Field(i).Interface(), w.Field(i).Interface(); !reflect.DeepEqual(a, b) {
			field, _, _ := strings.Cut(h.Type().Field(i).Tag.Get("json"), ",")
			return &ConsumerError{Stream: info.Stream, Consumer: info.Name, Why: fmt.Sprintf("has %s %v, and must have %v", field, a, b),
				Do: fmt.Sprintf("nats consumer rm %s %s", info.Stream, info.Name)}
		}
	}
	return nil
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
