// Webhooks among those that hold events of a stream.

package events

import (
	"context"
	"maps"
	"slices"
	"strings"

	"perennial/queue/positions"
)

// webhookConsumer is what a webhook is called among the consumers of an events stream: no
// name of a consumer has a space.
func webhookConsumer(name string) string { return "webhook " + name }

// WebhookOf is the webhook that holds events of a stream under the name of a consumer, ""
// for a consumer of NATS.
func WebhookOf(consumer string) string {
	name, is := strings.CutPrefix(consumer, webhookConsumer(""))
	if !is {
		return ""
	}
	return name
}

// UnreadWebhook is a webhook that has not begun, and is to get every event.
func UnreadWebhook(name string) Unread { return Unread{Consumer: webhookConsumer(name), First: 1} }

// unreadWebhooks are the webhooks that have not delivered all of an events stream.
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
