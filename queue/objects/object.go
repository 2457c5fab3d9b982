// This file stores and reads objects. It limits how fast a store sends, and ends a read when
// its context ends.

package objects

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"perennial/ledger/sleep"
	"perennial/queue"
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
	// bucketTimeout limits the wait for a new bucket.
	bucketTimeout = 10 * time.Second
	// storeTimeout limits how long storing one snapshot may take.
	storeTimeout = time.Hour
	// storesWithin is how long a server may take to store the next part. It is asked every
	// storedPause.
	storesWithin, storedPause = 30 * time.Second, 5 * time.Millisecond
	// partsAhead is how many parts of an object, of 128 KiB each, may be sent before the server
	// has stored them.
	partsAhead = 64
)

// pacedReader is the content of an object that is being stored. The library sends one
// message per read, and may send thousands without waiting. Each read therefore fills its
// buffer. After every partsAhead reads, the next read first waits until the server has
// stored earlier parts.
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

// Read fills part, unless the content ends.
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

// errNotStored means that the server stores no more parts, as with a full disk or quota. The
// library does not report the refusal of a part before the next read returns.
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

// endsWith returns a reader of content that also ends when ctx ends. If the server sends
// nothing more, the client library's own read waits until its context's deadline, even if
// the context is cancelled.
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
