// This file stores snapshots of a ledger's state in the account's object store.

package objects

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"

	"perennial/queue"
	"perennial/queue/streams"
)

// Snapshot is a ledger's state after a journal row, as an object in the account's bucket. It
// replaces the events that were removed from the start of a stream.
type Snapshot struct {
	Seq          uint64 // sequence of the last row that it includes
	Hash         string // hash of that row
	SnapshotHash string // hash of the state, as in ledger.archived
	Bytes        uint64 // stored size
}

// Snapshots stores and reads the snapshots of one account.
type Snapshots struct {
	js      *queue.JetStream
	account string
}

// SnapshotsOf returns the Snapshots of an account.
func SnapshotsOf(js *queue.JetStream, account string) Snapshots { return Snapshots{js, account} }

// Name returns the object's name in the bucket.
func (s Snapshot) Name() string {
	return fmt.Sprintf("%d-%s", s.Seq, s.SnapshotHash[:min(len(s.SnapshotHash), 16)])
}

// Metadata keys of a snapshot object.
const (
	metaSeq          = "seq"
	metaHash         = "hash"
	metaSnapshotHash = "snapshot_hash"
)

// List returns an account's snapshots, newest first. It returns nil if there is no bucket.
func (o Snapshots) List(ctx context.Context) ([]Snapshot, error) {
	bucket, err := o.open(ctx)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	objects, err := bucket.List(ctx)
	if errors.Is(err, jetstream.ErrNoObjectsFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list bucket %s: %w", queue.SnapshotsBucket(o.account), err)
	}
	var all []Snapshot
	for _, o := range objects {
		s := Snapshot{Hash: o.Metadata[metaHash], SnapshotHash: o.Metadata[metaSnapshotHash], Bytes: o.Size}
		if s.Seq, err = strconv.ParseUint(o.Metadata[metaSeq], 10, 64); err == nil && s.Name() == o.Name {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b Snapshot) int { return int(int64(b.Seq) - int64(a.Seq)) })
	return all, nil
}

func (o Snapshots) open(ctx context.Context) (jetstream.ObjectStore, error) {
	if err := queue.ValidAccount(o.account); err != nil {
		return nil, err
	}
	bucket, err := o.js.ObjectStore(ctx, queue.SnapshotsBucket(o.account))
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", queue.SnapshotsBucket(o.account), err)
	}
	return bucket, nil
}

// Store stores a snapshot. It creates the bucket if it is missing. If the bucket's settings
// would lose the snapshot, it returns a [queue.StreamError].
func (o Snapshots) Store(ctx context.Context, replicas int, s Snapshot, content io.Reader) error {
	bucket, err := o.open(ctx)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		bucket, err = o.js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{
			Bucket: queue.SnapshotsBucket(o.account), Description: "What the removed events of Perennial amounted to",
			Storage: jetstream.FileStorage, Replicas: max(replicas, 1),
		})
		if err == nil {
			err = awaitBucket(ctx, o.js, queue.SnapshotsBucket(o.account))
		}
	}
	if err == nil {
		err = streams.CheckSnapshots(ctx, o.js, o.account, replicas)
	}
	if err != nil {
		return err
	}
	// Without a deadline the library limits each part to five seconds.
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	slow, err := paced(ctx, o.js, queue.SnapshotsBucket(o.account), content)
	if err == nil {
		_, err = bucket.Put(ctx, jetstream.ObjectMeta{Name: s.Name(), Metadata: map[string]string{
			metaSeq: strconv.FormatUint(s.Seq, 10), metaHash: s.Hash, metaSnapshotHash: s.SnapshotHash,
		}}, slow)
	}
	if err != nil {
		return fmt.Errorf("store snapshot %s in bucket %s: %w", s.Name(), queue.SnapshotsBucket(o.account), err)
	}
	return nil
}

// Read returns a snapshot's content. Reading it to its end verifies the digest.
func (o Snapshots) Read(ctx context.Context, s Snapshot) (io.ReadCloser, error) {
	bucket, err := o.open(ctx)
	if err != nil {
		return nil, err
	}
	content, err := bucket.Get(ctx, s.Name())
	if err != nil {
		return nil, fmt.Errorf("snapshot %s in bucket %s: %w", s.Name(), queue.SnapshotsBucket(o.account), err)
	}
	return endsWith(ctx, content), nil
}

// RemoveBut removes all snapshots except keep, and the parts that interrupted stores left.
func (o Snapshots) RemoveBut(ctx context.Context, keep Snapshot) error {
	bucket, err := o.open(ctx)
	if err != nil {
		return err
	}
	objects, err := bucket.List(ctx)
	if err != nil {
		return fmt.Errorf("list bucket %s: %w", queue.SnapshotsBucket(o.account), err)
	}
	kept := ""
	for _, o := range objects {
		if o.Name == keep.Name() {
			kept = o.NUID
		}
	}
	if kept == "" {
		return fmt.Errorf("snapshot %s is not in bucket %s: nothing was removed", keep.Name(), queue.SnapshotsBucket(o.account))
	}
	for _, o := range objects {
		if o.Name != keep.Name() {
			if err := bucket.Delete(ctx, o.Name); err != nil {
				return fmt.Errorf("remove snapshot %s: %w", o.Name, err)
			}
		}
	}
	return removeParts(ctx, o.js, queue.SnapshotsBucket(o.account), kept)
}
