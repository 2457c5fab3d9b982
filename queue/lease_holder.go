// Who holds an account, for those who only look.

package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// CheckLeases says that the bucket of the leases is gone: the holder of each account loses it
// within seconds, and makes the bucket anew. For a user without permission to look it returns nil.
func CheckLeases(ctx context.Context, js *JetStream) error {
	_, err := js.Look(ctx, KeyValueStream(LeaseBucket))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("bucket %s, which says who runs which account, is gone: see who deleted it; a runner makes it anew within a minute (`perennial doctor`)", LeaseBucket)
	}
	return nil
}

// LeaseHolder names the runner that holds an account's lease, "" when none does.
func LeaseHolder(ctx context.Context, js *JetStream, account string) (string, error) {
	if err := ValidAccount(account); err != nil {
		return "", err
	}
	bucket, err := js.KeyValue(ctx, LeaseBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("bucket %s: %w", LeaseBucket, err)
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
