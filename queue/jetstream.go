// This file wraps the JetStream of a connection. It explains the server's refusals, and
// ends requests for which the user has no permission.

package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/sirupsen/logrus"

	"perennial/queue/quota"
)

// JetStream is the JetStream of a connection, for the packages under queue. It explains why
// the server refuses to create something.
type JetStream struct {
	jetstream.JetStream

	api      string // prefix of the subjects of JetStream's API
	ownInbox bool   // the connection's inboxes do not start with _INBOX
	where    string // configured address, without credentials
	log      *logrus.Entry
	denials  denials
}

// API returns the prefix of the subjects of JetStream's API.
func (j *JetStream) API() string { return j.api }

// OwnInbox reports whether the connection's inboxes have another prefix than NATS's
// default.
func (j *JetStream) OwnInbox() bool { return j.ownInbox }

// Log returns the log of the connection.
func (j *JetStream) Log() *logrus.Entry { return j.log }

// URL returns the address of the connected server, or the configured address.
func (j *JetStream) URL() string {
	if at := j.Conn().ConnectedUrl(); at != "" {
		return Redacted(at)
	}
	return j.where
}

// MaxPayload returns the server's limit on the size of one message, in bytes.
func (j *JetStream) MaxPayload() int64 { return j.Conn().MaxPayload() }

// Clustered reports whether the connected server is part of a cluster.
func (j *JetStream) Clustered() bool { return j.Conn().ConnectedClusterName() != "" }

// AwaitConnected waits until the connection is up. It returns an error if ctx ends or the
// connection is closed.
func (j *JetStream) AwaitConnected(ctx context.Context) error {
	up := j.Conn().StatusChanged(nats.CONNECTED, nats.CLOSED)
	defer j.Conn().RemoveStatusListener(up)
	for !j.Conn().IsConnected() {
		if j.Conn().IsClosed() { // a connection that was closed before sends no status
			return nats.ErrConnectionClosed
		}
		select {
		case <-up:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// WhileConnected returns a context that ends when the connection is lost, with [ErrStopping]
// as its cause. A pending reply can then no longer arrive.
func (j *JetStream) WhileConnected(ctx context.Context) (context.Context, func()) {
	lost := j.Conn().StatusChanged(nats.RECONNECTING, nats.CLOSED)
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-lost:
			cancel(ErrStopping)
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel(nil)
		j.Conn().RemoveStatusListener(lost)
	}
}

// Look looks up a stream. If the user has no permission, it returns a [DeniedError], whereas
// Stream would wait until ctx ends.
func (j *JetStream) Look(ctx context.Context, name string) (jetstream.Stream, error) {
	ctx, forget := j.Allowed(ctx, j.api+"STREAM.INFO."+name)
	defer forget()
	stream, err := j.Stream(ctx, name)
	return stream, Denied(ctx, err)
}

// LookBucket is Look for a key-value bucket.
func (j *JetStream) LookBucket(ctx context.Context, name string) (jetstream.KeyValue, error) {
	ctx, forget := j.Allowed(ctx, j.api+"STREAM.INFO."+KeyValueStream(name))
	defer forget()
	bucket, err := j.KeyValue(ctx, name)
	return bucket, Denied(ctx, err)
}

// StreamOf looks up one of an account's streams. If the stream does not exist, it returns
// ErrNoAccount; what describes the stream in that error's text.
func StreamOf(ctx context.Context, j *JetStream, account, name, what string) (jetstream.Stream, error) {
	if err := ValidAccount(account); err != nil {
		return nil, err
	}
	stream, err := j.Look(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, fmt.Errorf("account %s: %w: it has no %s", account, ErrNoAccount, what)
	}
	return stream, err
}

// leaderTimeout limits the wait for a reply from a stream's leader. A stream that has no
// leader, or is changing its leader, does not reply.
const leaderTimeout = 3 * time.Second

// Ask sends one request of the JetStream API to a stream's leader and decodes the reply into
// answer. The caller checks answer for an error of JetStream. Ask waits at most
// leaderTimeout.
func (j *JetStream) Ask(ctx context.Context, operation string, request, answer any) error {
	subject := j.api + operation
	var body []byte
	if request != nil {
		var err error
		if body, err = json.Marshal(request); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, leaderTimeout)
	defer cancel()
	ctx, forget := j.Allowed(ctx, subject)
	defer forget()
	reply, err := j.Conn().RequestWithContext(ctx, subject, body)
	if err = Denied(ctx, err); err != nil {
		return fmt.Errorf("%s: %w", operation, err)
	}
	if err := json.Unmarshal(reply.Data, answer); err != nil {
		return fmt.Errorf("%s: not an answer of JetStream: %w", operation, err)
	}
	return nil
}

// CreateStream creates a stream. An error from the server explains what to configure.
func (j *JetStream) CreateStream(ctx context.Context, c jetstream.StreamConfig) (jetstream.Stream, error) {
	s, err := j.JetStream.CreateStream(ctx, c)
	return s, quota.InWords(err)
}

// UpdateStream changes a stream. An error from the server explains what to configure.
func (j *JetStream) UpdateStream(ctx context.Context, c jetstream.StreamConfig) (jetstream.Stream, error) {
	s, err := j.JetStream.UpdateStream(ctx, c)
	return s, quota.InWords(err)
}

// CreateKeyValue creates a key-value bucket. An error from the server explains what to
// configure.
func (j *JetStream) CreateKeyValue(ctx context.Context, c jetstream.KeyValueConfig) (jetstream.KeyValue, error) {
	b, err := j.JetStream.CreateKeyValue(ctx, c)
	return b, quota.InWords(err)
}

// CreateObjectStore creates an object store. An error from the server explains what to
// configure.
func (j *JetStream) CreateObjectStore(ctx context.Context, c jetstream.ObjectStoreConfig) (jetstream.ObjectStore, error) {
	b, err := j.JetStream.CreateObjectStore(ctx, c)
	return b, quota.InWords(err)
}

// CreateOrUpdateConsumer creates or changes a consumer. An error from the server explains
// what to configure.
func (j *JetStream) CreateOrUpdateConsumer(ctx context.Context, stream string, c jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	made, err := j.JetStream.CreateOrUpdateConsumer(ctx, stream, c)
	return made, quota.InWords(err)
}
