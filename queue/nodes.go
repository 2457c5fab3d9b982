// What the runners of a NATS server say of themselves: a key each, which runs out with
// its runner.

package queue

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"perennial/queue/bucket"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// NodeLife is how long a runner counts as living after its last word.
const NodeLife = 10 * time.Second

// PostNode says that a runner lives, and data of it. The bucket is made where it is missing,
// with replicas copies.
func PostNode(ctx context.Context, js *JetStream, node string, data []byte, replicas int) error {
	kv, err := bucket.Ensure(ctx, js, jetstream.KeyValueConfig{
		Bucket: NodesBucket, Description: "Which runners of Perennial live", TTL: NodeLife, History: 1,
		Storage: jetstream.MemoryStorage, Replicas: max(replicas, 1),
	})
	if err == nil {
		_, err = kv.Put(ctx, nodeKey(node), data)
	}
	if err != nil {
		return fmt.Errorf("bucket %s: %w", NodesBucket, err)
	}
	return nil
}

// DropNode takes back what a runner said: it ends.
func DropNode(ctx context.Context, js *JetStream, node string) error {
	kv, err := js.KeyValue(ctx, NodesBucket)
	if err == nil {
		err = kv.Purge(ctx, nodeKey(node))
	}
	if err != nil {
		return fmt.Errorf("bucket %s: %w", NodesBucket, err)
	}
	return nil
}

// nodeKey is a name as a key, which may not have every letter of a host's name.
func nodeKey(node string) string { return hex.EncodeToString([]byte(node)) }

// AllNodes is what the living runners have said last, in no order.
func AllNodes(ctx context.Context, js *JetStream) (said [][]byte, err error) {
	kv, err := js.LookBucket(ctx, NodesBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", NodesBucket, err)
	}
	all, err := kv.WatchAll(ctx, jetstream.IgnoreDeletes())
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", NodesBucket, err)
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
			return nil, fmt.Errorf("bucket %s: %w", NodesBucket, ctx.Err())
		}
	}
}

// WatchNodes calls changed with what the runners have said last, at once and with every
// new word, until ctx ends. What a runner said stays until it ends in good order: whether
// it is old by now is the caller's matter. It returns nil where there is no bucket.
func WatchNodes(ctx context.Context, js *JetStream, changed func(said [][]byte)) error {
	return bucket.WatchAll(ctx, js, NodesBucket, func(all map[string][]byte) {
		changed(slices.Collect(maps.Values(all)))
	})
}
