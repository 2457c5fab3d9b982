package positions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"perennial/queue"
	"perennial/queue/bucket"
)

// ErrMoved reports that a webhook's position has changed since the writer read it: an
// operator moved it, or another runner has the account.
var ErrMoved = errors.New("the webhook's position was written by another client")

// Positions reads and writes the webhook positions of one account.
type Positions struct {
	js      *queue.JetStream
	account string
}

// Of returns the Positions of an account.
func Of(js *queue.JetStream, account string) Positions { return Positions{js, account} }

// Mark identifies an event of an account's history. The hash distinguishes it from an event
// with the same sequence after a restore.
type Mark struct {
	Seq  uint64 `json:"seq"`
	Hash string `json:"hash,omitempty"`
}

// Position is how far a webhook has delivered. Every event up to Mark was delivered, or has
// a type that the webhook excludes.
type Position struct {
	Mark

	// Read is the newest event that was read from the stream. Events between Mark and Read
	// were delivered too, except those in Undelivered.
	Read Mark `json:"read"`
	// Undelivered has the sequences between Mark and Read that were not delivered,
	// ascending.
	Undelivered []uint64 `json:"undelivered,omitempty"`
	// Marks has older positions, ascending. After the history was cut, the newest mark that
	// still exists shows where to continue.
	Marks []Mark `json:"marks,omitempty"`

	LastError   string     `json:"last_error,omitempty"`   // error of the last failed attempt, while a retry is due
	NextAttempt *time.Time `json:"next_attempt,omitempty"` // time of the next attempt that is due
	Stopped     string     `json:"stopped,omitempty"`      // why nothing is sent until the next start; "" while the webhook sends

	// By is the operator who moved the position, and Reason the operator's reason. Both are ""
	// if a runner wrote the position.
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Behind returns how many events are undelivered if the stream ends with sequence last.
// Events that were not read yet count, whatever their type.
func (p Position) Behind(last uint64) uint64 {
	behind := uint64(len(p.Undelivered))
	if last > p.Read.Seq {
		behind += last - p.Read.Seq
	}
	return behind
}

// Ensure creates the bucket for an account's webhooks if it is missing.
func (w Positions) Ensure(ctx context.Context, replicas int) error {
	_, err := w.open(ctx)
	if !errors.Is(err, jetstream.ErrBucketNotFound) {
		return err
	}
	_, err = bucket.Ensure(ctx, w.js, jetstream.KeyValueConfig{
		Bucket: queue.WebhooksBucket(w.account), Description: "How far the webhooks of the account have delivered its events", History: 1,
		Storage: jetstream.FileStorage, Replicas: max(replicas, 1),
	})
	if err != nil {
		return fmt.Errorf("bucket %s: %w", queue.WebhooksBucket(w.account), err)
	}
	return nil
}

func (w Positions) open(ctx context.Context) (jetstream.KeyValue, error) {
	if err := queue.ValidAccount(w.account); err != nil {
		return nil, err
	}
	kv, err := w.js.LookBucket(ctx, queue.WebhooksBucket(w.account))
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", queue.WebhooksBucket(w.account), err)
	}
	return kv, nil
}

// Read returns a webhook's position and the revision for its next write. Revision 0 means
// that the webhook has no position.
func (w Positions) Read(ctx context.Context, name string) (p Position, revision uint64, err error) {
	kv, err := w.open(ctx)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return p, 0, nil
	}
	if err != nil {
		return p, 0, err
	}
	return read(ctx, kv, name)
}

func read(ctx context.Context, kv jetstream.KeyValue, name string) (p Position, revision uint64, err error) {
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

// Write writes a webhook's position and returns its new revision. If the stored position has
// another revision, it returns [ErrMoved]. The bucket must exist.
func (w Positions) Write(ctx context.Context, name string, p Position, revision uint64) (uint64, error) {
	kv, err := w.open(ctx)
	if err != nil {
		return 0, err
	}
	text, err := json.Marshal(p)
	if err != nil {
		return 0, err
	}
	revision, err = bucket.Update(ctx, kv, name, text, revision)
	if errors.Is(err, jetstream.ErrKeyExists) {
		return 0, fmt.Errorf("position of webhook %s: %w", name, ErrMoved)
	}
	if err != nil {
		return 0, fmt.Errorf("position of webhook %s: %w", name, err)
	}
	return revision, nil
}

// All returns the positions of an account's webhooks by name, including webhooks that are
// no longer configured.
func (w Positions) All(ctx context.Context) (map[string]Position, error) {
	all := map[string]Position{}
	kv, err := w.open(ctx)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return all, nil
	}
	if err != nil {
		return nil, err
	}
	stream, err := w.js.Stream(ctx, queue.KeyValueStream(kv.Bucket()))
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
		p, revision, err := read(ctx, kv, name)
		if err != nil {
			return nil, err
		}
		if revision > 0 { // revision 0: the position was removed in the meantime
			all[name] = p
		}
	}
	return all, nil
}

// Remove removes a webhook's position, if it has one. Its undelivered events then need not
// be kept.
func (w Positions) Remove(ctx context.Context, name string) error {
	kv, err := w.open(ctx)
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

// Watch calls written with each webhook's name and revision, first for the current positions
// and then whenever a position is written, until ctx ends.
func (w Positions) Watch(ctx context.Context, written func(name string, revision uint64)) error {
	return bucket.Watch(ctx, w.js, queue.WebhooksBucket(w.account), func(entry jetstream.KeyValueEntry) {
		if entry != nil {
			written(entry.Key(), entry.Revision())
		}
	})
}
