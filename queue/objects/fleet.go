// This file stores the leader's last listing of an account's proxies as an object for the
// standbys.

package objects

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"perennial/queue"
)

// Fleet stores and reads the last listing of one account's proxies.
type Fleet struct {
	js      *queue.JetStream
	account string
}

// FleetOf returns the Fleet of an account.
func FleetOf(js *queue.JetStream, account string) Fleet { return Fleet{js, account} }

const (
	fleetObject  = "fleet"
	metaFinished = "finished_at" // when the listing finished, in RFC 3339
	metaAsOf     = "as_of"       // time of the newest read, in RFC 3339; if missing, metaFinished applies
)

// Store replaces the stored listing. It creates the bucket if it is missing. finished is
// when the listing finished; asOf is the time of its newest read.
func (f Fleet) Store(ctx context.Context, replicas int, finished, asOf time.Time, content io.Reader) error {
	if err := queue.ValidAccount(f.account); err != nil {
		return err
	}
	name := queue.FleetBucket(f.account)
	bucket, err := f.js.ObjectStore(ctx, name)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		bucket, err = f.js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{
			Bucket: name, Description: "The proxies of the account as its runner last listed them: a cache",
			Storage: jetstream.FileStorage, Replicas: max(replicas, 1),
		})
		if err == nil {
			err = awaitBucket(ctx, f.js, name)
		}
	}
	if err != nil {
		return fmt.Errorf("bucket %s: %w", name, err)
	}
	slow, err := paced(ctx, f.js, name, content)
	if err != nil {
		return fmt.Errorf("bucket %s: %w", name, err)
	}
	stored, err := bucket.Put(ctx, jetstream.ObjectMeta{Name: fleetObject, Metadata: map[string]string{
		metaFinished: finished.UTC().Format(time.RFC3339Nano), metaAsOf: asOf.UTC().Format(time.RFC3339Nano),
	}}, slow)
	if err != nil {
		return fmt.Errorf("store the last listing in bucket %s: %w", name, err)
	}
	return removeParts(ctx, f.js, name, stored.NUID) // parts of an interrupted store
}

// AsOf returns the time of the newest read in the stored listing, or the zero time if no
// listing is stored.
func (f Fleet) AsOf(ctx context.Context) (time.Time, error) {
	bucket, err := f.js.ObjectStore(ctx, queue.FleetBucket(f.account))
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("bucket %s: %w", queue.FleetBucket(f.account), err)
	}
	info, err := bucket.GetInfo(ctx, fleetObject)
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("bucket %s: %w", queue.FleetBucket(f.account), err)
	}
	text, has := info.Metadata[metaAsOf]
	if !has {
		text = info.Metadata[metaFinished]
	}
	asOf, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return asOf, fmt.Errorf("bucket %s: the object %s does not say of when it is: %w", queue.FleetBucket(f.account), fleetObject, err)
	}
	return asOf, nil
}

// Read returns the stored listing. Reading it to its end verifies the digest.
func (f Fleet) Read(ctx context.Context) (io.ReadCloser, error) {
	bucket, err := f.js.ObjectStore(ctx, queue.FleetBucket(f.account))
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", queue.FleetBucket(f.account), err)
	}
	content, err := bucket.Get(ctx, fleetObject)
	if err != nil {
		return nil, fmt.Errorf("the last listing in bucket %s: %w", queue.FleetBucket(f.account), err)
	}
	return endsWith(ctx, content), nil
}
