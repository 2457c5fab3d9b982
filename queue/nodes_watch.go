// What changes in the small buckets that all runners read: who lives, and which account a
// person has given to which of them.

package queue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/nats-io/nats.go/jetstream"
)

// WatchNodes calls changed with what the runners have said last, at once and with every
// new word, until ctx ends. What a runner said stays until it ends in good order: whether
// it is old by now is the caller's matter. It returns nil where there is no bucket.
func (q *Queue) WatchNodes(ctx context.Context, changed func(said [][]byte)) error {
	return q.watchBucket(ctx, NodesBucket, func(all map[string][]byte) {
		changed(slices.Collect(maps.Values(all)))
	})
}

// watchBucket calls changed with what a bucket holds, at once and after every change,
// until ctx ends. The map is changed behind the call.
func (q *Queue) watchBucket(ctx context.Context, name string, changed func(all map[string][]byte)) error {
	bucket, err := q.js.KeyValue(ctx, name)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		changed(nil)
		return nil
	}
	if err != nil {
		return fmt.Errorf("bucket %s: %w", name, err)
	}
	watcher, err := bucket.WatchAll(ctx)
	if err != nil {
		return fmt.Errorf("bucket %s: %w", name, err)
	}
	defer func() { _ = watcher.Stop() }()
	all, complete := map[string][]byte{}, false
	for {
		select {
		case entry, open := <-watcher.Updates():
			switch {
			case !open:
				return ctx.Err()
			case entry == nil: // the end of what there was
				complete = true
			case entry.Operation() == jetstream.KeyValuePut:
				all[entry.Key()] = entry.Value()
			default:
				delete(all, entry.Key())
			}
			if complete {
				changed(all)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
