// This file has the accounts that an operator has pinned to runners. Each pinned account
// has one key, until it is unpinned.

package nodes

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"perennial/queue"
	"perennial/queue/bucket"
)

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
