// What the runners of a NATS server say of themselves: a key each, which runs out with
// its runner.

package queue

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// NodeLife is how long a runner counts as living behind its last word.
const NodeLife = 10 * time.Second

// PostNode says that a runner lives, and data of it. Its bucket is made where there is
// none.
func (q *Queue) PostNode(ctx context.Context, node string, data []byte) error {
	bucket, err := q.js.KeyValue(ctx, NodesBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		bucket, err = q.js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: NodesBucket, Description: "Which runners of Perennial live", TTL: NodeLife, History: 1,
			Storage: jetstream.MemoryStorage, Replicas: q.leaseReplicas,
		})
		if errors.Is(err, jetstream.ErrBucketExists) {
			bucket, err = q.js.KeyValue(ctx, NodesBucket)
		}
	}
	if err == nil {
		_, err = bucket.Put(ctx, nodeKey(node), data)
	}
	if err != nil {
		return fmt.Errorf("bucket %s: %w", NodesBucket, err)
	}
	return nil
}

// DropNode takes back what a runner said: it ends.
func (q *Queue) DropNode(ctx context.Context, node string) error {
	bucket, err := q.js.KeyValue(ctx, NodesBucket)
	if err == nil {
		err = bucket.Purge(ctx, nodeKey(node))
	}
	if err != nil {
		return fmt.Errorf("bucket %s: %w", NodesBucket, err)
	}
	return nil
}

// nodeKey is a name as a key, which may not have every letter of a host's name.
func nodeKey(node string) string { return hex.EncodeToString([]byte(node)) }

// Nodes are what the living runners have said last, in no order.
func (q *Queue) Nodes(ctx context.Context) (said [][]byte, err error) {
	ctx, forget := q.JetStream().Allowed(ctx, q.js.api+"STREAM.INFO."+KeyValueStream(NodesBucket))
	defer forget()
	bucket, err := q.js.KeyValue(ctx, NodesBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", NodesBucket, Denied(ctx, err))
	}
	all, err := bucket.WatchAll(ctx, jetstream.IgnoreDeletes())
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
