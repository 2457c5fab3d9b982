// Storing and reading objects, paced and ended with their context.

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
// cluster the connected server learns of it a moment later. It probes with a message that
// the bucket refuses because it names another stream.
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
	// errCodeOtherStream is the server's answer to a message that expects another stream.
	errCodeOtherStream jetstream.ErrorCode = 10060
	// bucketTimeout bounds the wait for a new bucket.
	bucketTimeout = 10 * time.Second
	// storeTimeout bounds the storing of one snapshot.
	storeTimeout = time.Hour
	// partsAhead is how many parts of a snapshot, of 128 KiB, are in flight at once.
	partsAhead = 64
)

// pacedReader is the source of a snapshot being stored. The library sends one message for
// each read, and thousands without waiting. Each read therefore fills its buffer, and every
// few reads wait until the server has stored the earlier parts.
type pacedReader struct {
	io.Reader

	ctx    context.Context //nolint:containedctx // of the one call that reads
	stored func(context.Context) (uint64, error)
	began  uint64 // the stream's last sequence before
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

// await returns when the stream has stored a message.
func (p *pacedReader) await(seq uint64) error {
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

// endsWith reads an object until ctx ends. The client's own read continues to its context's
// deadline, even if it is cancelled, when the server sends nothing more.
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

// removeParts removes the parts of objects without an entry in the bucket's list, which a
// killed store leaves.
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
