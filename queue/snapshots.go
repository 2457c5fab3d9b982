// Snapshots of a ledger's state in the account's object store.

package queue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"perennial/ledger/sleep"

	"github.com/nats-io/nats.go/jetstream"
)

// Snapshot is a ledger's state behind one journal row, as an object in the
// account's bucket: what the first events of a bounded stream amounted to.
type Snapshot struct {
	Seq          uint64 // the last row that it contains
	Hash         string // of that row
	SnapshotHash string // of the state, as ledger.archived names it
	Bytes        uint64 // as stored
}

// Name is the object's name in the bucket.
func (s Snapshot) Name() string {
	return fmt.Sprintf("%d-%s", s.Seq, s.SnapshotHash[:min(len(s.SnapshotHash), 16)])
}

// The keys of a snapshot object's metadata.
const (
	metaSeq          = "seq"
	metaHash         = "hash"
	metaSnapshotHash = "snapshot_hash"
)

// Snapshots lists an account's snapshots, the newest first; none when there is no
// bucket.
func (q *Queue) Snapshots(ctx context.Context, account string) ([]Snapshot, error) {
	bucket, err := q.snapshots(ctx, account)
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
		return nil, fmt.Errorf("list bucket %s: %w", SnapshotsBucket(account), err)
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

func (q *Queue) snapshots(ctx context.Context, account string) (jetstream.ObjectStore, error) {
	if err := ValidAccount(account); err != nil {
		return nil, err
	}
	bucket, err := q.js.ObjectStore(ctx, SnapshotsBucket(account))
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", SnapshotsBucket(account), err)
	}
	return bucket, nil
}

// StoreSnapshot stores a snapshot, and makes the bucket where it is missing. A
// bucket whose settings would lose it is refused with a [StreamError].
func (q *Queue) StoreSnapshot(ctx context.Context, account string, replicas int, s Snapshot, content io.Reader) error {
	bucket, err := q.snapshots(ctx, account)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		bucket, err = q.js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{
			Bucket: SnapshotsBucket(account), Description: "What the removed events of Perennial amounted to",
			Storage: jetstream.FileStorage, Replicas: max(replicas, 1),
		})
		if err == nil {
			err = q.awaitBucket(ctx, SnapshotsBucket(account))
		}
	}
	if err == nil {
		err = q.checkSnapshots(ctx, account, replicas)
	}
	if err != nil {
		return err
	}
	// The library gives each part five seconds where the context has no end.
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	paced, err := q.paced(ctx, SnapshotsBucket(account), content)
	if err == nil {
		_, err = bucket.Put(ctx, jetstream.ObjectMeta{Name: s.Name(), Metadata: map[string]string{
			metaSeq: strconv.FormatUint(s.Seq, 10), metaHash: s.Hash, metaSnapshotHash: s.SnapshotHash,
		}}, paced)
	}
	if err != nil {
		return fmt.Errorf("store snapshot %s in bucket %s: %w", s.Name(), SnapshotsBucket(account), err)
	}
	return nil
}

// awaitBucket waits until an object store that was just made takes messages from this
// connection: in a cluster the server of the connection hears of it a moment later.
// It asks with a message that the bucket refuses, since it expects another stream.
func (q *Queue) awaitBucket(ctx context.Context, bucket string) error {
	ctx, cancel := context.WithTimeout(ctx, bucketTimeout)
	defer cancel()
	_, err := q.js.Publish(ctx, "$O."+bucket+".C.expected-of-another-stream", nil,
		jetstream.WithExpectStream("none"), jetstream.WithRetryAttempts(int(bucketTimeout/jetstream.DefaultPubRetryWait)))
	if refused, ok := errors.AsType[*jetstream.APIError](err); ok && refused.ErrorCode == errCodeOtherStream {
		return nil
	}
	return fmt.Errorf("wait for bucket %s: %w", bucket, err)
}

const (
	// errCodeOtherStream is the server's answer to a message that expects another stream.
	errCodeOtherStream jetstream.ErrorCode = 10060
	// bucketTimeout bounds the wait for a bucket that was just made.
	bucketTimeout = 10 * time.Second
	// storeTimeout bounds the storing of one snapshot.
	storeTimeout = time.Hour
	// partsAhead is how many parts of a snapshot, of 128 KiB, are under way at once.
	partsAhead = 64
)

// paced is the reader that a snapshot is stored from. The library sends one message
// for each read, and thousands without waiting. So each read fills its buffer, and
// every few reads wait until the server has stored what was read before.
type paced struct {
	io.Reader

	ctx    context.Context //nolint:containedctx // of the one call that reads
	stored func(context.Context) (uint64, error)
	began  uint64 // what the stream had stored before
	parts  uint64
}

func (q *Queue) paced(ctx context.Context, bucket string, content io.Reader) (*paced, error) {
	stream, err := q.js.Stream(ctx, ObjectsStream(bucket))
	if err != nil {
		return nil, err
	}
	return &paced{Reader: content, ctx: ctx, began: stream.CachedInfo().State.LastSeq, stored: func(ctx context.Context) (uint64, error) {
		info, err := stream.Info(ctx)
		if err != nil {
			return 0, err
		}
		return info.State.LastSeq, nil
	}}, nil
}

// Read fills p, unless the content ends.
func (p *paced) Read(part []byte) (n int, err error) {
	if p.parts > 0 && p.parts%partsAhead == 0 {
		if err := p.await(p.began + p.parts - partsAhead/2); err != nil {
			return 0, err
		}
	}
	p.parts++
	n, err = io.ReadFull(p.Reader, part)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return n, err
}

// await returns when the stream has stored a message.
func (p *paced) await(seq uint64) error {
	for {
		last, err := p.stored(p.ctx)
		if err != nil || last >= seq {
			return err
		}
		if err := sleep.For(p.ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
}

// checkSnapshots looks at the bucket's stream as checkStream does at others.
// A bucket that is not there is made when the first snapshot is stored.
func (q *Queue) checkSnapshots(ctx context.Context, account string, replicas int) error {
	name := ObjectsStream(SnapshotsBucket(account))
	stream, err := q.js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look up stream %s: %w", name, err)
	}
	have := stream.CachedInfo().Config
	have.AllowRollup = false // objects are replaced by rollups
	bucket := SnapshotsBucket(account)
	return checkStream(have, jetstream.StreamConfig{
		Name: name, Subjects: []string{"$O." + bucket + ".C.>", "$O." + bucket + ".M.>"}, Storage: jetstream.FileStorage, Replicas: max(replicas, 1),
	})
}

// ReadSnapshot yields a snapshot's content; reading to the end compares it with
// the digest that was stored beside it.
func (q *Queue) ReadSnapshot(ctx context.Context, account string, s Snapshot) (io.ReadCloser, error) {
	bucket, err := q.snapshots(ctx, account)
	if err != nil {
		return nil, err
	}
	content, err := bucket.Get(ctx, s.Name())
	if err != nil {
		return nil, fmt.Errorf("snapshot %s in bucket %s: %w", s.Name(), SnapshotsBucket(account), err)
	}
	return endsWith(ctx, content), nil
}

// endsWith reads an object until ctx ends: a read of the client's own goes on to the deadline
// of its context, also where that is cancelled, when the server sends nothing more.
func endsWith(ctx context.Context, content io.ReadCloser) io.ReadCloser {
	out, in := io.Pipe()
	stop := context.AfterFunc(ctx, func() { _ = in.CloseWithError(ctx.Err()) })
	go func() {
		_, err := io.Copy(in, content)
		_ = in.CloseWithError(err) // nil is the end
		stop()
		_ = content.Close()
	}()
	return out
}

// RemoveSnapshotsBut removes every other snapshot, and what a storing that was
// cut short has left.
func (q *Queue) RemoveSnapshotsBut(ctx context.Context, account string, keep Snapshot) error {
	bucket, err := q.snapshots(ctx, account)
	if err != nil {
		return err
	}
	objects, err := bucket.List(ctx)
	if err != nil {
		return fmt.Errorf("list bucket %s: %w", SnapshotsBucket(account), err)
	}
	kept := ""
	for _, o := range objects {
		if o.Name == keep.Name() {
			kept = o.NUID
		}
	}
	if kept == "" {
		return fmt.Errorf("snapshot %s is not in bucket %s: nothing was removed", keep.Name(), SnapshotsBucket(account))
	}
	for _, o := range objects {
		if o.Name != keep.Name() {
			if err := bucket.Delete(ctx, o.Name); err != nil {
				return fmt.Errorf("remove snapshot %s: %w", o.Name, err)
			}
		}
	}
	return q.removeParts(ctx, SnapshotsBucket(account), kept)
}

// removeParts removes the parts of objects that have no entry in the bucket's
// list: a storing that was killed leaves them.
func (q *Queue) removeParts(ctx context.Context, bucket, kept string) error {
	stream, err := q.js.Stream(ctx, ObjectsStream(bucket))
	if err != nil {
		return err
	}
	parts := "$O." + bucket + ".C."
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(parts+">"))
	if err != nil {
		return fmt.Errorf("list the parts in bucket %s: %w", bucket, err)
	}
	for subject := range info.State.Subjects {
		if strings.TrimPrefix(subject, parts) == kept {
			continue
		}
		if err := stream.Purge(ctx, jetstream.WithPurgeSubject(subject)); err != nil {
			return fmt.Errorf("remove parts in bucket %s: %w", bucket, err)
		}
	}
	return nil
}
