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
	all, complete := map[string][]byte{}, false
	err := q.watchEntries(ctx, name, func(entry jetstream.KeyValueEntry) {
		switch {
		case entry == nil:
			complete = true
		case entry.Operation() == jetstream.KeyValuePut:
			all[entry.Key()] = entry.Value()
		default:
			delete(all, entry.Key())
		}
		if complete {
			changed(all)
		}
	})
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		changed(nil)
		return nil
	}
	return err
}

// watchEntries calls each with the last entry of each key of a bucket, then with nil, and
// then with every entry that comes, until ctx ends.
func (q *Queue) watchEntries(ctx context.Context, name string, each func(jetstream.KeyValueEntry)) error {
	bucket, err := q.js.KeyValue(ctx, name)
	if err != nil {
		return fmt.Errorf("bucket %s: %w", name, err)
	}
	watcher, err := bucket.WatchAll(ctx)
	if err != nil {
		return fmt.Errorf("bucket %s: %w", name, err)
	}
	defer func() { _ = watcher.Stop() }()
	for {
		select {
		case entry, open := <-watcher.Updates():
			if !open {
				return ctx.Err()
			}
			each(entry)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
