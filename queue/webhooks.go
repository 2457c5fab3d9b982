// Where webhooks keep their positions: a bucket for each account, with a key for each of
// its webhooks.

package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"perennial/queue/bucket"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// ErrWebhookMoved says that a webhook's position is not what the writer read: a person
// moved it, or another runner has the account.
var ErrWebhookMoved = errors.New("the webhook's position was written by another client")

// EventMark names one event of an account's history: the hash tells it from another one
// that has its sequence after a restore.
type EventMark struct {
	Seq  uint64 `json:"seq"`
	Hash string `json:"hash,omitempty"`
}

// WebhookPosition is how far a webhook has delivered. The mark is the newest event up to
// which every event was delivered, or is of a type that the webhook leaves out.
type WebhookPosition struct {
	EventMark

	// Read is the newest event that was taken from the stream. What lies between both marks
	// is delivered too, but for Undelivered.
	Read EventMark `json:"read"`
	// Undelivered are sequences between both marks, ascending.
	Undelivered []uint64 `json:"undelivered,omitempty"`
	// Marks are older positions, ascending: where a history that was cut behind one of them
	// goes on is found by them.
	Marks []EventMark `json:"marks,omitempty"`

	LastError   string     `json:"last_error,omitempty"`   // of the last attempt that failed, while one is due again
	NextAttempt *time.Time `json:"next_attempt,omitempty"` // the earliest that is due
	Stopped     string     `json:"stopped,omitempty"`      // why nothing is sent before the next start; "": it is

	// By and Reason are of the person who moved the position; what a runner wrote has none.
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Behind is how many events are not delivered when the stream ends with a sequence; those
// that were not read yet count whatever their types.
func (p WebhookPosition) Behind(last uint64) uint64 {
	behind := uint64(len(p.Undelivered))
	if last > p.Read.Seq {
		behind += last - p.Read.Seq
	}
	return behind
}

// EnsureWebhooks makes the bucket of an account's webhooks where it is missing.
func (q *Queue) EnsureWebhooks(ctx context.Context, account string, replicas int) error {
	_, err := q.webhooks(ctx, account)
	if !errors.Is(err, jetstream.ErrBucketNotFound) {
		return err
	}
	_, err = bucket.Ensure(ctx, q.js, jetstream.KeyValueConfig{
		Bucket: WebhooksBucket(account), Description: "How far the webhooks of the account have delivered its events", History: 1,
		Storage: jetstream.FileStorage, Replicas: max(replicas, 1),
	})
	if err != nil {
		return fmt.Errorf("bucket %s: %w", WebhooksBucket(account), err)
	}
	return nil
}

func (q *Queue) webhooks(ctx context.Context, account string) (jetstream.KeyValue, error) {
	if err := ValidAccount(account); err != nil {
		return nil, err
	}
	kv, err := q.js.LookBucket(ctx, WebhooksBucket(account))
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", WebhooksBucket(account), err)
	}
	return kv, nil
}

// WebhookPosition reads a webhook's position, and the revision with which it is written
// again; revision 0: it has none.
func (q *Queue) WebhookPosition(ctx context.Context, account, name string) (p WebhookPosition, revision uint64, err error) {
	kv, err := q.webhooks(ctx, account)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return p, 0, nil
	}
	if err != nil {
		return p, 0, err
	}
	return readWebhook(ctx, kv, name)
}

func readWebhook(ctx context.Context, kv jetstream.KeyValue, name string) (p WebhookPosition, revision uint64, err error) {
	entry, err := kv.Get(ctx, name)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return p, 0, nil
	}
	if err == nil {
		err = json.Unmarshal(entry.Value(), &p)
	}
	if err != nil {
		return p, 0, fmt.Errorf("position of webhook %s: %w", name, err)
	}
	return p, entry.Revision(), nil
}

// StoreWebhook writes a webhook's position, if it is as it was read, and else returns
// [ErrWebhookMoved]. The bucket must be there.
func (q *Queue) StoreWebhook(ctx context.Context, account, name string, p WebhookPosition, revision uint64) (uint64, error) {
	kv, err := q.webhooks(ctx, account)
	if err != nil {
		return 0, err
	}
	text, err := json.Marshal(p)
	if err != nil {
		return 0, err
	}
	revision, err = bucket.Update(ctx, kv, name, text, revision)
	if errors.Is(err, jetstream.ErrKeyExists) {
		return 0, fmt.Errorf("position of webhook %s: %w", name, ErrWebhookMoved)
	}
	if err != nil {
		return 0, fmt.Errorf("position of webhook %s: %w", name, err)
	}
	return revision, nil
}

// WebhookPositions are the positions that an account's webhooks have, also of those that
// are configured no more, by name.
func (q *Queue) WebhookPositions(ctx context.Context, account string) (map[string]WebhookPosition, error) {
	all := map[string]WebhookPosition{}
	kv, err := q.webhooks(ctx, account)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return all, nil
	}
	if err != nil {
		return nil, err
	}
	stream, err := q.js.Stream(ctx, KeyValueStream(kv.Bucket()))
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", kv.Bucket(), err)
	}
	keys := "$KV." + kv.Bucket() + "."
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(keys+">"))
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", kv.Bucket(), err)
	}
	for subject := range info.State.Subjects {
		name := strings.TrimPrefix(subject, keys)
		p, revision, err := readWebhook(ctx, kv, name)
		if err != nil {
			return nil, err
		}
		if revision > 0 { // else it was removed
			all[name] = p
		}
	}
	return all, nil
}

// RemoveWebhook removes a webhook's position: what it has not delivered keeps no event any
// more. Where there is none it does nothing.
func (q *Queue) RemoveWebhook(ctx context.Context, account, name string) error {
	kv, err := q.webhooks(ctx, account)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil
	}
	if err == nil {
		err = kv.Purge(ctx, name)
	}
	if err != nil {
		return fmt.Errorf("position of webhook %s: %w", name, err)
	}
	return nil
}

// WatchWebhooks calls written with each webhook's name and revision, at once and whenever
// its position is written, until ctx ends.
func (q *Queue) WatchWebhooks(ctx context.Context, account string, written func(name string, revision uint64)) error {
	return bucket.Watch(ctx, q.js, WebhooksBucket(account), func(entry jetstream.KeyValueEntry) {
		if entry != nil {
			written(entry.Key(), entry.Revision())
		}
	})
}

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
func (q *Queue) unreadWebhooks(ctx context.Context, account string, last uint64) ([]Unread, error) {
	positions, err := q.WebhookPositions(ctx, account)
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
