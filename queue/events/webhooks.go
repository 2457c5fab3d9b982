// This file lists webhooks that still need events of a stream.

package events

import (
	"context"
	"maps"
	"slices"
	"strings"

	"perennial/queue/positions"
)

// webhookConsumer returns a webhook's name among the consumers of an events stream. It
// contains a space, so it cannot be the name of a NATS consumer.
func webhookConsumer(name string) string { return "webhook " + name }

// WebhookOf returns the webhook that an [Unread].Consumer refers to, or "" if it is a
// consumer of NATS.
func WebhookOf(consumer string) string {
	name, is := strings.CutPrefix(consumer, webhookConsumer(""))
	if !is {
		return ""
	}
	return name
}

// UnreadWebhook returns the Unread of a webhook that has not started and needs every event.
func UnreadWebhook(name string) Unread { return Unread{Consumer: webhookConsumer(name), First: 1} }

// unreadWebhooks lists the webhooks that have not delivered all events.
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
