// What the runners of a NATS server say of themselves: a key each, which runs out with
// its runner.

package nodes

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"perennial/queue"
	"perennial/queue/bucket"
)

// NodeLife is how long a runner counts as living after its last word.
const NodeLife = 10 * time.Second

// Post says that a runner lives, and data of it. The bucket is made where it is missing,
// with replicas copies.
func Post(ctx context.Context, js *queue.JetStream, node string, data []byte, replicas int) error {
	kv, err := bucket.Ensure(ctx, js, jetstream.KeyValueConfig{
		Bucket: queue.NodesBucket, Description: "Which runners of Perennial live", TTL: NodeLife, History: 1,
		Storage: jetstream.MemoryStorage, Replicas: max(replicas, 1),
	})
	if err == nil {
		_, err = kv.Put(ctx, nodeKey(node), data)
	}
	if err != nil {
		return fmt.Errorf("bucket %s: %w", queue.NodesBucket, err)
	}
	return nil
}

// Drop takes back what a runner said: it ends.
func Drop(ctx context.Context, js *queue.JetStream, node string) error {
	kv, err := js.KeyValue(ctx, queue.NodesBucket)
	if err == nil {
		err = kv.Purge(ctx, nodeKey(node))
	}
	if err != nil {
		return fmt.Errorf("bucket %s: %w", queue.NodesBucket, err)
	}
	return nil
}

// nodeKey is a name as a key, which may not have every letter of a host's name.
func nodeKey(node string) string { return hex.EncodeToString([]byte(node)) }

// All is what the living runners have said last, in no order.
func All(ctx context.Context, js *queue.JetStream) (said [][]byte, err error) {
	kv, err := js.LookBucket(ctx, queue.NodesBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", queue.NodesBucket, err)
	}
	all, err := kv.WatchAll(ctx, jetstream.IgnoreDeletes())
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", queue.NodesBucket, err)
	}
	defer func() { _ = all.Stop() }()
	for {
		select {
		case entry, open := <-all.Updates():
			if !open || entry == nil { // the end of what there is
				return said, ctx.Err()
			}
			said = append(said, entry.Value())
		case <-ctx.Done():
			return nil, fmt.Errorf("bucket %s: %w", queue.NodesBucket, ctx.Err())
		}
	}
}

// Watch calls changed with what the runners have said last, at once and with every
// new word, until ctx ends. What a runner said stays until it ends in good order: whether
// it is old by now is the caller's matter. It returns nil where there is no bucket.
func Watch(ctx context.Context, js *queue.JetStream, changed func(said [][]byte)) error {
	return bucket.WatchAll(ctx, js, queue.NodesBucket, func(all map[string][]byte) {
		changed(slices.Collect(maps.Values(all)))
	})
}
