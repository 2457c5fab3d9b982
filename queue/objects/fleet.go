// What the runner that holds an account last listed of its proxies, as an object for the
// runners that follow.

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

// Fleet is the last listing of one account.
type Fleet struct {
	js      *queue.JetStream
	account string
}

// FleetOf is the last listing of an account.
func FleetOf(js *queue.JetStream, account string) Fleet { return Fleet{js, account} }

const (
	fleetObject  = "fleet"
	metaFinished = "finished_at" // RFC 3339, of the listing
	metaAsOf     = "as_of"       // RFC 3339, of the newest read; missing: as metaFinished
)

// Store stores what a listing that finished at an instant showed, with what was read
// until asOf, in place of what was stored before. The bucket is made where it is missing.
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
	return removeParts(ctx, f.js, name, stored.NUID) // of a storing that was cut short
}

// AsOf is the instant of the newest read in what is stored; zero where nothing is.
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

// Read is the content that was stored last; reading to the end compares it with the
// digest that was stored beside it.
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
