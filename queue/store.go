// Publishing to a stream, with its acknowledgement.

package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"perennial/ledger/sleep"
	"perennial/queue/quota"
)

const (
	// MaxBatch is the server's limit for one atomic batch, in messages.
	MaxBatch = 1000
	// MaxBatchBytes keeps a batch of large messages from filling the server's queue of
	// unprocessed messages.
	MaxBatchBytes = 16 << 20

	// Headers of a message in an atomic batch.
	HeaderBatchID       = "Nats-Batch-Id"
	HeaderBatchSequence = "Nats-Batch-Sequence"
	HeaderBatchCommit   = "Nats-Batch-Commit"

	// PublishTimeout bounds the wait for an answer when the context has no deadline.
	PublishTimeout = 30 * time.Second
	// electionMost bounds the wait for a clustered stream without a leader. A new one is
	// elected within ten seconds after its server is lost.
	electionMost = 12 * time.Second

	// codeIngest says that the stream's buffer is full, and that it stores nothing of this
	// message.
	codeIngest jetstream.ErrorCode = 10167
)

// PubAck is a stream's answer to a publication.
type PubAck struct {
	Sequence uint64              `json:"seq"`
	Count    int                 `json:"count"` // messages of an atomic batch
	Error    *jetstream.APIError `json:"error"`
}

// Store publishes a message and waits for the stream's answer. It retries while the stream
// is busy, or has no leader, as after the loss of a server. An empty answer means that a
// message inside a batch is staged.
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

// HasCode reports whether JetStream refused a request with this code.
func HasCode(err error, code jetstream.ErrorCode) bool {
	refused, ok := errors.AsType[*jetstream.APIError](err)
	return ok && refused.ErrorCode == code
}

// Disconnected reports whether the client could not send because it has no connection now.
func Disconnected(err error) bool {
	return errors.Is(err, nats.ErrReconnectBufExceeded) || errors.Is(err, nats.ErrConnectionClosed) ||
		errors.Is(err, nats.ErrConnectionReconnecting) || errors.Is(err, nats.ErrDisconnected)
}
