package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/sirupsen/logrus"

	"perennial/ledger/sleep"
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
// connection is closed for good.
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

// WhileConnected returns a context that ends when the connection is lost, with [ErrStopping] as
// its cause. After that, a pending reply can no longer arrive.
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

// Look looks up a stream. If the user has no permission, it returns a [DeniedError]. The Stream
// method would wait until ctx ends.
func (j *JetStream) Look(ctx context.Context, name string) (jetstream.Stream, error) {
	ctx, forget := j.Allowed(ctx, j.api+"STREAM.INFO."+name)
	defer forget()
	stream, err := j.Stream(ctx, name)
	return stream, Denied(ctx, err)
}

// LookBucket looks up a key-value bucket, as Look does for a stream.
func (j *JetStream) LookBucket(ctx context.Context, name string) (jetstream.KeyValue, error) {
	ctx, forget := j.Allowed(ctx, j.api+"STREAM.INFO."+KeyValueStream(name))
	defer forget()
	bucket, err := j.KeyValue(ctx, name)
	return bucket, Denied(ctx, err)
}

// StreamOf looks up one of an account's streams. If the stream does not exist, it returns
// ErrNoAccount. The parameter what describes the stream in the text of that error.
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

// AbsentError reports that JetStream does not reply on the server that should have the streams
// according to the configuration.
type AbsentError struct{ Seen, Do string }

// Error says what was seen, and what to do.
func (e *AbsentError) Error() string { return e.Seen + ": " + e.Do }

// CheckPresent returns nil if JetStream replies, and an [AbsentError] if no server replies
// for it. It returns other errors unchanged, such as a timeout.
func CheckPresent(ctx context.Context, j *JetStream) error {
	_, err := j.AccountInfo(ctx)
	switch {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return &AbsentError{"JetStream is not enabled for the NATS account of this login", "add jetstream: enabled to the account (docs/nats.md), or log in as a user of the account with the streams"}
	case !errors.Is(err, jetstream.ErrJetStreamNotEnabled):
		return err
	case j.api == jetstream.DefaultAPIPrefix:
		return &AbsentError{"NATS at " + j.URL() + " has no JetStream, and reaches none", "add a jetstream block to the server; on a leaf node, see that it is connected to its hub, and set nats.domain to the hub's"}
	}
	here, err := jetstream.New(j.Conn())
	if err != nil {
		return err
	}
	info, err := here.AccountInfo(ctx)
	if err != nil {
		return &AbsentError{"no JetStream answers at " + j.api + ", and NATS at " + j.URL() + " has none of its own", "see that this leaf node is connected to its hub, that the hub runs, and that nats.domain is the hub's"}
	}
	return &AbsentError{fmt.Sprintf("no JetStream answers at %s; that of NATS at %s has the domain %q", j.api, j.URL(), info.Domain),
		"set nats.domain to this one where the streams are there; where they are on the hub of this leaf node, to the hub's, and see that the two are connected"}
}

// Explain replaces an error about a missing reply from JetStream with an [AbsentError]. It
// returns other errors unchanged.
func Explain(ctx context.Context, j *JetStream, err error) error {
	if errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) {
		if absent, ok := errors.AsType[*AbsentError](CheckPresent(ctx, j)); ok {
			return absent
		}
	}
	return err
}

// AwaitPresent waits until JetStream replies, and then returns nil. If JetStream is not
// enabled, it returns that error immediately. If ctx ends first, it returns the error of the
// last request. It calls waits once, if the first request gets no reply.
func AwaitPresent(ctx context.Context, j *JetStream, waits func()) error {
	for first := true; ; first = false {
		limited, cancel := context.WithTimeout(ctx, electionAsk)
		_, err := j.AccountInfo(limited)
		cancel()
		if err == nil || errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) {
			return err
		}
		if first {
			waits()
		}
		if sleep.For(ctx, electionAgain) != nil {
			return err
		}
	}
}

// electionAsk limits one request to a cluster that may have no leader. electionAgain is the
// wait before the next request.
const (
	electionAsk   = 2 * time.Second
	electionAgain = 250 * time.Millisecond
)

// DeniedError reports that the connection's user has no permission for a subject.
type DeniedError struct{ Subject string }

// Error says which subject is denied and where permissions are configured.
func (e *DeniedError) Error() string {
	return fmt.Sprintf("the NATS user of this connection has no permission for %s: log in as a user whose role gives it (nats.users, docs/security.md)", e.Subject)
}

type denials struct {
	mu    sync.Mutex
	waits map[*waiting]struct{}
}

type waiting struct {
	subject string
	end     context.CancelCauseFunc
}

var deniedSubject = regexp.MustCompile(`Permissions Violation for Publish to "([^"]+)"`)

// heard handles a permission error: it ends the pending requests for the denied subject. It
// reports whether there were any.
func (d *denials) heard(err error) bool {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return false
	}
	m := deniedSubject.FindStringSubmatch(err.Error())
	if m == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	found := false
	for w := range d.waits {
		if w.subject == m[1] {
			w.end(&DeniedError{m[1]})
			found = true
		}
	}
	return found
}

// Allowed returns a context that is cancelled if the server denies the subject. The cause
// is then a [DeniedError]. The returned function releases the context.
func (j *JetStream) Allowed(ctx context.Context, subject string) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	d, w := &j.denials, &waiting{subject, cancel}
	d.mu.Lock()
	if d.waits == nil {
		d.waits = map[*waiting]struct{}{}
	}
	d.waits[w] = struct{}{}
	d.mu.Unlock()
	return ctx, func() {
		cancel(nil)
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.waits, w)
	}
}

// Denied returns the [DeniedError] that cancelled ctx, a context from Allowed. If no DeniedError
// cancelled ctx, or if err is nil, it returns err.
func Denied(ctx context.Context, err error) error {
	if refused, ok := errors.AsType[*DeniedError](context.Cause(ctx)); ok && err != nil {
		return refused
	}
	return err
}

const (
	// MaxBatch is the server's limit for one atomic batch, in messages.
	MaxBatch = 1000
	// MaxBatchBytes limits a batch, in bytes, so that large messages do not fill the
	// server's queue of unprocessed messages.
	MaxBatchBytes = 16 << 20

	// Headers of a message in an atomic batch.
	HeaderBatchID       = "Nats-Batch-Id"
	HeaderBatchSequence = "Nats-Batch-Sequence"
	HeaderBatchCommit   = "Nats-Batch-Commit"

	// PublishTimeout limits the wait for an acknowledgement if the context has no deadline.
	PublishTimeout = 30 * time.Second
	// electionMost limits the wait for a leader of a clustered stream. After a server is
	// lost, a new leader is elected within ten seconds.
	electionMost = 12 * time.Second

	// codeIngest says that the stream's buffer is full and the message was not stored.
	codeIngest jetstream.ErrorCode = 10167
)

// PubAck is a stream's reply to a published message.
type PubAck struct {
	Sequence uint64              `json:"seq"`
	Count    int                 `json:"count"` // number of messages in an atomic batch
	Error    *jetstream.APIError `json:"error"`
}

// Store publishes a message and waits for the stream's acknowledgement. It retries while
// the stream is busy or has no leader, for example after the loss of a server. An empty
// acknowledgement means that a message of a batch is staged.
func (j *JetStream) Store(ctx context.Context, msg *nats.Msg) (PubAck, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, PublishTimeout)
		defer cancel()
	}
	ctx, forget := j.Allowed(ctx, msg.Subject)
	defer forget()
	delay := sleep.Growing(20*time.Millisecond, 200*time.Millisecond)
	election, over := context.WithTimeout(ctx, electionMost)
	defer over()
	for {
		reply, err := j.Conn().RequestMsgWithContext(ctx, msg)
		if errors.Is(err, nats.ErrNoResponders) && j.Clustered() && delay.Wait(election) == nil {
			continue
		}
		if err = Denied(ctx, err); err != nil {
			return PubAck{}, fmt.Errorf("publish to %s: %w", msg.Subject, err)
		}
		ack, err := parseAck(reply.Data)
		if HasCode(err, codeIngest) && delay.Wait(ctx) == nil {
			continue
		}
		if err != nil {
			return ack, fmt.Errorf("publish to %s: %w", msg.Subject, quota.InWords(err))
		}
		return ack, nil
	}
}

func parseAck(data []byte) (PubAck, error) {
	var ack PubAck
	if len(data) == 0 {
		return ack, nil
	}
	if err := json.Unmarshal(data, &ack); err != nil {
		return ack, fmt.Errorf("not an acknowledgement: %w", err)
	}
	if ack.Error != nil {
		return ack, ack.Error
	}
	return ack, nil
}

// HasCode reports whether JetStream refused a request with this error code.
func HasCode(err error, code jetstream.ErrorCode) bool {
	refused, ok := errors.AsType[*jetstream.APIError](err)
	return ok && refused.ErrorCode == code
}

// Disconnected reports whether a message could not be sent because there is no connection.
func Disconnected(err error) bool {
	return errors.Is(err, nats.ErrReconnectBufExceeded) || errors.Is(err, nats.ErrConnectionClosed) ||
		errors.Is(err, nats.ErrConnectionReconnecting) || errors.Is(err, nats.ErrDisconnected)
}
