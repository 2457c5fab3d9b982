// Webhooks that still need events of a stream.

package events

import (
	"context"
	"maps"
	"slices"
	"strings"

	"perennial/queue/positions"
)

// webhookConsumer returns a webhook's name among the consumers of an events stream. The
// names of NATS consumers have no space.
func webhookConsumer(name string) string { return "webhook " + name }

// WebhookOf returns the webhook named by a consumer of [Stream.Unread], "" for a consumer
// of NATS.
func WebhookOf(consumer string) string {
	name, is := strings.CutPrefix(consumer, webhookConsumer(""))
	if !is {
		return ""
	}
	return name
}

// UnreadWebhook returns a webhook that has not begun and needs every event.
func UnreadWebhook(name string) Unread { return Unread{Consumer: webhookConsumer(name), First: 1} }

// unreadWebhooks lists the webhooks that have not delivered all of an events stream.
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
