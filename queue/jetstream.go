// The JetStream of a connection for the packages under queue: it explains the server's
// refusals in words, and ends requests without permission.

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

// JetStream is a part's interface to the server: JetStream, and through Conn its
// connection. It explains in words what the server refuses to create.
type JetStream struct {
	jetstream.JetStream

	api      string // prefix of its API's subjects
	ownInbox bool   // the connection's inboxes do not begin with _INBOX
	where    string // configured address, without credentials
	log      *logrus.Entry
	denials  denials
}

// API returns the prefix of the subjects of JetStream's API.
func (j *JetStream) API() string { return j.api }

// OwnInbox reports whether the connection's inboxes have another prefix than NATS's
// default.
func (j *JetStream) OwnInbox() bool { return j.ownInbox }

// Log returns the log for the parts.
func (j *JetStream) Log() *logrus.Entry { return j.log }

// URL returns the address of the connected server, or of the one to connect to.
func (j *JetStream) URL() string {
	if at := j.Conn().ConnectedUrl(); at != "" {
		return Redacted(at)
	}
	return j.where
}

// MaxPayload returns the server's limit of bytes in one message.
func (j *JetStream) MaxPayload() int64 { return j.Conn().MaxPayload() }

// Clustered reports whether the connected server is part of a cluster.
func (j *JetStream) Clustered() bool { return j.Conn().ConnectedClusterName() != "" }

// AwaitConnected returns when the connection is up, or with ctx's error.
func (j *JetStream) AwaitConnected(ctx context.Context) error {
	up := j.Conn().StatusChanged(nats.CONNECTED, nats.CLOSED)
	defer j.Conn().RemoveStatusListener(up)
	for !j.Conn().IsConnected() {
		select {
		case <-up:
		case <-ctx.Done():
			return ctx.Err()
		}
		if j.Conn().IsClosed() {
			return nats.ErrConnectionClosed
		}
	}
	return nil
}

// WhileConnected returns a context that ends with [ErrStopping] when the connection is
// lost, because a pending answer can no longer arrive.
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

// Look looks up a stream. Unlike Stream it ends with a [DeniedError] if the user has no
// permission, instead of waiting for ctx.
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

// StreamOf looks up one of an account's streams; what names it in the error for an account
// without it.
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

// leaderTimeout bounds the wait for a leader's answer. A stream without a leader, or with a
// changing one, does not answer.
const leaderTimeout = 3 * time.Second

// Ask sends one request of the JetStream API to a stream's leader, and reads the answer. It
// waits at most 3 s.
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

// CreateStream creates a stream.
func (j *JetStream) CreateStream(ctx context.Context, c jetstream.StreamConfig) (jetstream.Stream, error) {
	s, err := j.JetStream.CreateStream(ctx, c)
	return s, quota.InWords(err)
}

// UpdateStream changes a stream.
func (j *JetStream) UpdateStream(ctx context.Context, c jetstream.StreamConfig) (jetstream.Stream, error) {
	s, err := j.JetStream.UpdateStream(ctx, c)
	return s, quota.InWords(err)
}

// CreateKeyValue creates a key-value bucket.
func (j *JetStream) CreateKeyValue(ctx context.Context, c jetstream.KeyValueConfig) (jetstream.KeyValue, error) {
	b, err := j.JetStream.CreateKeyValue(ctx, c)
	return b, quota.InWords(err)
}

// CreateObjectStore creates an object store.
func (j *JetStream) CreateObjectStore(ctx context.Context, c jetstream.ObjectStoreConfig) (jetstream.ObjectStore, error) {
	b, err := j.JetStream.CreateObjectStore(ctx, c)
	return b, quota.InWords(err)
}

// CreateOrUpdateConsumer creates or changes a consumer.
func (j *JetStream) CreateOrUpdateConsumer(ctx context.Context, stream string, c jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	made, err := j.JetStream.CreateOrUpdateConsumer(ctx, stream, c)
	return made, quota.InWords(err)
}
