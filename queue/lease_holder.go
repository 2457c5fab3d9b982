// Who holds an account, for those who only look.

package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// LeaseHolder names the runner that holds an account's lease, "" when none does.
func (q *Queue) LeaseHolder(ctx context.Context, account string) (string, error) {
	if err := ValidAccount(account); err != nil {
		return "", err
	}
	bucket, err := q.js.KeyValue(ctx, LeaseBucket)
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
