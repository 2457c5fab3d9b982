// This file reads which runner has an account.

package lease

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"perennial/queue"
)

// Check returns an error if the bucket of the leases does not exist. Each account's leader
// then loses its lease within seconds, and creates the bucket again. Check also returns nil
// if it cannot look, for example without the permission.
func Check(ctx context.Context, js *queue.JetStream) error {
	_, err := js.Look(ctx, queue.KeyValueStream(queue.LeaseBucket))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("bucket %s, which says who runs which account, is gone: find out who deleted it; a runner makes it again within a minute (`perennial doctor`)", queue.LeaseBucket)
	}
	return nil
}

// Holder returns the runner that has an account's lease. It returns "" if no runner has it,
// or if another client overwrote or deleted its key.
func Holder(ctx context.Context, js *queue.JetStream, account string) (string, error) {
	if err := queue.ValidAccount(account); err != nil {
		return "", err
	}
	bucket, err := js.KeyValue(ctx, queue.LeaseBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("bucket %s: %w", queue.LeaseBucket, err)
	}
	entry, err := bucket.Get(ctx, account)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("lease of account %s: %w", account, err)
	}
	return keyOf(entry).holder, nil
}
