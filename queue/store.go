// This file publishes to a stream and reads the acknowledgement.

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
