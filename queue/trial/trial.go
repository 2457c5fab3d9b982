package trial

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"perennial/queue"
	"perennial/queue/lease"
)

// Trial is an account that was not on the server when the trial began.
type Trial struct {
	js      *queue.JetStream
	account string
	absent  []string // shared buckets that did not exist when the trial began
}

// OccupiedError reports that a server already has something of an account.
type OccupiedError struct {
	Account string
	Found   []string // names of streams, and the holder of its lease
}

// Error says what was found.
func (e *OccupiedError) Error() string {
	return fmt.Sprintf("account %s is on this server already: %s", e.Account, strings.Join(e.Found, ", "))
}

func streamsOf(account string) []string {
	return append(queue.KeptStreams(account), queue.ObjectsStream(queue.FleetBucket(account)))
}

// Begin begins a trial. It changes nothing on the server. If the account already has
// something there, it returns an [OccupiedError].
func Begin(ctx context.Context, js *queue.JetStream, account string) (*Trial, error) {
	t := &Trial{js: js, account: account}
	holder, err := lease.Holder(ctx, js, account)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, name := range streamsOf(account) {
		there, err := hasStream(ctx, js, name)
		if err != nil {
			return nil, err
		}
		if there {
			found = append(found, "stream "+name)
		}
	}
	if holder != "" {
		found = append(found, "its lease is held by "+holder)
	}
	if len(found) > 0 {
		return nil, &OccupiedError{Account: account, Found: found}
	}
	for _, bucket := range []string{queue.LeaseBucket, queue.NodesBucket} {
		there, err := hasStream(ctx, js, queue.KeyValueStream(bucket))
		if err != nil {
			return nil, err
		}
		if !there {
			t.absent = append(t.absent, bucket)
		}
	}
	return t, nil
}

func hasStream(ctx context.Context, js *queue.JetStream, name string) (bool, error) {
	_, err := js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look up stream %s: %w", name, err)
	}
	return true, nil
}

// End removes the account's streams, with their consumers, and the key of its lease. It also
// removes a shared bucket that did not exist when the trial began, unless the bucket still
// has keys. The account's runner must have ended.
func (t *Trial) End(ctx context.Context) error {
	var failed error
	for _, name := range streamsOf(t.account) {
		if err := t.js.DeleteStream(ctx, name); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			failed = errors.Join(failed, fmt.Errorf("remove stream %s: %w", name, err))
		}
	}
	return errors.Join(failed, t.forgetLease(ctx), t.removeBuckets(ctx))
}

// forgetLease purges the key of the lease. It does not store a deletion: the next holder would
// take it for another client's change, and wait until the lease would have expired.
func (t *Trial) forgetLease(ctx context.Context) error {
	stream, err := t.js.Stream(ctx, queue.KeyValueStream(queue.LeaseBucket))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err == nil {
		err = stream.Purge(ctx, jetstream.WithPurgeSubject("$KV."+queue.LeaseBucket+"."+t.account))
	}
	if err != nil {
		return fmt.Errorf("remove the lease of account %s: %w", t.account, err)
	}
	return nil
}

func (t *Trial) removeBuckets(ctx context.Context) error {
	var failed error
	for _, name := range t.absent {
		bucket, err := t.js.KeyValue(ctx, name)
		if errors.Is(err, jetstream.ErrBucketNotFound) {
			continue
		}
		if err == nil {
			_, err = bucket.Keys(ctx)
		}
		if err == nil { // the bucket has keys
			continue
		}
		if errors.Is(err, jetstream.ErrNoKeysFound) {
			err = t.js.DeleteKeyValue(ctx, name)
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("remove bucket %s: %w", name, err))
		}
	}
	return failed
}
