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

// NodeLife is how long a runner counts as alive after its last post.
const NodeLife = 10 * time.Second

// Post records that a runner is alive, with its data. It creates a missing bucket with this
// number of replicas.
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

// Drop removes a runner's post.
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

// nodeKey encodes a runner's name as a key. A host name may contain characters that are not
// allowed in a key.
func nodeKey(node string) string { return hex.EncodeToString([]byte(node)) }

// All returns the last posts of the live runners, in no particular order.
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
			if !open || entry == nil { // the end of the current entries
				return said, ctx.Err()
			}
			said = append(said, entry.Value())
		case <-ctx.Done():
			return nil, fmt.Errorf("bucket %s: %w", queue.NodesBucket, ctx.Err())
		}
	}
}

// Watch calls changed with the runners' last posts, first with the current posts and then
// after every post, until ctx ends. A post that has expired stays in the list, so the
// caller must check its age. Watch returns nil if there is no bucket.
func Watch(ctx context.Context, js *queue.JetStream, changed func(said [][]byte)) error {
	return bucket.WatchAll(ctx, js, queue.NodesBucket, func(all map[string][]byte) {
		changed(slices.Collect(maps.Values(all)))
	})
}

// Pin makes an account run on a node while that node is alive. If the bucket is missing, Pin
// creates it with this number of replicas.
func Pin(ctx context.Context, js *queue.JetStream, account, node string, replicas int) error {
	if err := queue.ValidAccount(account); err != nil {
		return err
	}
	kv, err := bucket.Ensure(ctx, js, jetstream.KeyValueConfig{
		Bucket: queue.PinsBucket, Description: "Which accounts of Perennial a person has given to which runner", History: 1,
		Storage: jetstream.FileStorage, Replicas: max(replicas, 1),
	})
	if err == nil {
		_, err = kv.PutString(ctx, account, node)
	}
	if err != nil {
		return fmt.Errorf("bucket %s: %w", queue.PinsBucket, err)
	}
	return nil
}

// Unpin removes an account's pin. It does nothing if there is none.
func Unpin(ctx context.Context, js *queue.JetStream, account string) error {
	kv, err := js.KeyValue(ctx, queue.PinsBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil
	}
	if err == nil {
		err = kv.Purge(ctx, account)
	}
	if err != nil {
		return fmt.Errorf("bucket %s: %w", queue.PinsBucket, err)
	}
	return nil
}

// WatchPins calls changed with the pinned accounts and their nodes, first with the current
// pins and then after every change, until ctx ends. It returns nil if there is no bucket.
func WatchPins(ctx context.Context, js *queue.JetStream, changed func(pins map[string]string)) error {
	return bucket.WatchAll(ctx, js, queue.PinsBucket, func(all map[string][]byte) {
		pins := make(map[string]string, len(all))
		for account, node := range all {
			pins[account] = string(node)
		}
		changed(pins)
	})
}
