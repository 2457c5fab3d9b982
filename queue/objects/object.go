package objects

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"perennial/ledger/sleep"
	"perennial/queue"
	"perennial/queue/streams"
)

// awaitBucket waits until a new object store accepts messages from this connection. In a
// cluster, the connected server learns of the new bucket after a delay. To find out,
// awaitBucket publishes a message that every bucket refuses, because the message expects
// another stream.
func awaitBucket(ctx context.Context, js *queue.JetStream, bucket string) error {
	ctx, cancel := context.WithTimeout(ctx, bucketTimeout)
	defer cancel()
	_, err := js.Publish(ctx, "$O."+bucket+".C.expected-of-another-stream", nil,
		jetstream.WithExpectStream("none"), jetstream.WithRetryAttempts(int(bucketTimeout/jetstream.DefaultPubRetryWait)))
	if refused, ok := errors.AsType[*jetstream.APIError](err); ok && refused.ErrorCode == errCodeOtherStream {
		return nil
	}
	return fmt.Errorf("wait for bucket %s: %w", bucket, err)
}

const (
	// errCodeOtherStream is the server's error for a message that expects another stream.
	errCodeOtherStream jetstream.ErrorCode = 10060
	bucketTimeout                          = 10 * time.Second
	storeTimeout                           = time.Hour
	// storesWithin is how long a server may take to store the next part. storedPause is the
	// interval between two checks.
	storesWithin, storedPause = 30 * time.Second, 5 * time.Millisecond
	// partsAhead is how many parts of an object, of 128 KiB each, may be sent before the server
	// has stored them.
	partsAhead = 64
)

// pacedReader is the content of an object that is being stored. The library sends one message
// per read, and may send thousands without waiting. Each read therefore fills its buffer, and
// waits after every partsAhead reads until the server has stored earlier parts.
type pacedReader struct {
	io.Reader

	ctx    context.Context //nolint:containedctx // context of the one call that reads
	stored func(context.Context) (uint64, error)
	began  uint64 // the stream's last sequence before the store
	parts  uint64
}

func paced(ctx context.Context, js *queue.JetStream, bucket string, content io.Reader) (*pacedReader, error) {
	stream, err := js.Stream(ctx, queue.ObjectsStream(bucket))
	if err != nil {
		return nil, err
	}
	return &pacedReader{Reader: content, ctx: ctx, began: stream.CachedInfo().State.LastSeq, stored: func(ctx context.Context) (uint64, error) {
		info, err := stream.Info(ctx)
		if err != nil {
			return 0, err
		}
		return info.State.LastSeq, nil
	}}, nil
}

func (p *pacedReader) Read(part []byte) (n int, err error) {
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

// errNotStored means that the server stores no more parts, for example because the disk is full
// or a quota is reached. The library reports the refusal of a part only when the next read
// returns.
var errNotStored = errors.New("the NATS server stores no more parts of the object: check its disk and the limits of its streams")

// await waits until the stream has stored the message with sequence seq. It returns
// errNotStored if the stream stores nothing for storesWithin.
func (p *pacedReader) await(seq uint64) error {
	var before uint64
	for idle := time.Duration(0); ; idle += storedPause {
		last, err := p.stored(p.ctx)
		if err != nil || last >= seq {
			return err
		}
		if last > before {
			before, idle = last, 0
		}
		if idle >= storesWithin {
			return errNotStored
		}
		if err := sleep.For(p.ctx, storedPause); err != nil {
			return err
		}
	}
}

// endsWith returns a reader of content that fails when ctx ends. If the server sends nothing
// more, the client library's own reader waits until the deadline of its context, even if that
// context is cancelled.
func endsWith(ctx context.Context, content io.ReadCloser) io.ReadCloser {
	out, in := io.Pipe()
	stop := context.AfterFunc(ctx, func() { _ = in.CloseWithError(ctx.Err()) })
	go func() {
		_, err := io.Copy(in, content)
		_ = in.CloseWithError(err) // nil means the end of the content
		stop()
		_ = content.Close()
	}()
	return out
}

// removeParts removes the parts of all objects except kept. A killed store leaves parts of
// an object that the bucket does not list.
func removeParts(ctx context.Context, js *queue.JetStream, bucket, kept string) error {
	stream, err := js.Stream(ctx, queue.ObjectsStream(bucket))
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

// RemoveBut removes all snapshots except keep. It also removes the parts of interrupted uploads.
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
