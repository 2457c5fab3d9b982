// This file configures the durable consumers of the commands stream, one per line.

package streams

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"perennial/queue"
	"perennial/queue/quota"
)

// ackWait is how long after its delivery an unacknowledged command is delivered again.
const ackWait = time.Minute

// LineConfig returns the configuration of a line's consumer.
func LineConfig(account string, line queue.Line) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Name:          ConsumerOf(line),
		Durable:       ConsumerOf(line),
		Description:   "Perennial's intake",
		FilterSubject: line.Subject(account),
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       ackWait,
		MaxDeliver:    -1,
		MaxAckPending: quota.MaxAckPending,
		MaxWaiting:    32,
	}
}

// checkConsumers returns an error if a line's consumer is paused, or if its settings differ
// from LineConfig. A missing consumer is not an error, because the intake creates it. If the
// user may not list consumers, nothing is checked.
func checkConsumers(ctx context.Context, js *queue.JetStream, account string, stream jetstream.Stream) error {
	ctx, forget := js.Allowed(ctx, js.API()+"CONSUMER.LIST."+stream.CachedInfo().Config.Name)
	defer forget()
	infos := stream.ListConsumers(ctx)
	want := map[string]jetstream.ConsumerConfig{}
	for _, line := range queue.Lines() {
		want[ConsumerOf(line)] = LineConfig(account, line)
	}
	var found []error
	for info := range infos.Info() {
		if ours, ok := want[info.Name]; ok {
			found = append(found, checkConsumer(info, ours))
		}
	}
	err := queue.Denied(ctx, infos.Err())
	if _, mayNot := errors.AsType[*queue.DeniedError](err); mayNot {
		return nil
	}
	return errors.Join(append(found, err)...)
}

// checkConsumer returns an error if the consumer is paused, or if a setting that affects
// deliveries differs.
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

// ConsumerOf returns the name of a line's durable consumer.
func ConsumerOf(l queue.Line) string {
	name := "perennial-" + strings.ReplaceAll(string(l.Kind), ".", "-")
	if l.Priority != queue.PriorityNormal {
		name += "-" + string(l.Priority)
	}
	return name
}
