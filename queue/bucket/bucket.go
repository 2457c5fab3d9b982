package bucket

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// Ensure opens a bucket, or creates it if it is missing.
func Ensure(ctx context.Context, js jetstream.KeyValueManager, config jetstream.KeyValueConfig) (jetstream.KeyValue, error) {
	kv, err := js.KeyValue(ctx, config.Bucket)
	if !errors.Is(err, jetstream.ErrBucketNotFound) {
		return kv, err
	}
	kv, err = js.CreateKeyValue(ctx, config)
	if errors.Is(err, jetstream.ErrBucketExists) { // another client created the bucket first
		return js.KeyValue(ctx, config.Bucket)
	}
	return kv, err
}

// Update writes a key if its entry has this revision. Otherwise it returns ErrKeyExists.
// Revision 0 means that the key must not exist.
func Update(ctx context.Context, kv jetstream.KeyValue, key string, value []byte, revision uint64) (uint64, error) {
	if revision == 0 {
		return kv.Create(ctx, key, value)
	}
	revision, err := kv.Update(ctx, key, value, revision)
	if refused, ok := errors.AsType[*jetstream.APIError](err); ok && refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence {
		err = fmt.Errorf("%w: %w", jetstream.ErrKeyExists, err)
	}
	return revision, err
}

// Watch passes entries to the function each until ctx ends. It passes the last entry of each key
// of a bucket, then nil, and then every new entry.
func Watch(ctx context.Context, js jetstream.KeyValueManager, name string, each func(jetstream.KeyValueEntry)) error {
	kv, err := js.KeyValue(ctx, name)
	if err != nil {
		return fmt.Errorf("bucket %s: %w", name, err)
	}
	watcher, err := kv.WatchAll(ctx)
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

// WatchAll passes a bucket's content to the function changed, first the current content and then
// the content after every change, until ctx ends. The function must not keep the map, because
// WatchAll changes it later. If the bucket is missing, WatchAll passes nil and returns nil.
func WatchAll(ctx context.Context, js jetstream.KeyValueManager, name string, changed func(all map[string][]byte)) error {
	all, complete := map[string][]byte{}, false
	err := Watch(ctx, js, name, func(entry jetstream.KeyValueEntry) {
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
