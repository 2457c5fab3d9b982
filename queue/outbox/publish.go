// This file publishes rows. It retries the same rows with the same expected sequence until
// a quorum has acknowledged them, or until the stream has refused them and its leader shows
// why.

package outbox

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"perennial/ledger/sleep"
	"perennial/queue"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

const (
	// publishTry limits the wait for the acknowledgement of one attempt. publishMore is
	// added for each MiB of the batch.
	publishTry  = 2 * time.Second
	publishMore = time.Second
	// publishDelay is the delay after the first failed attempt, publishMost the longest
	// delay.
	publishDelay = 50 * time.Millisecond
	publishMost  = time.Second
)

// Publish appends rows with consecutive sequences to the stream, after row events[0].Seq-1.
// It sends at most queue.MaxBatch rows at a time, and the next rows after the
// acknowledgement. If Before is set, these rows are an atomic batch: the stream stores all
// of them or none. Otherwise each row is a separate message: the embedded server's stream
// may persist asynchronously, and then accepts no batches. Only one Publish may run at a
// time.
//
// Nil means that a quorum has acknowledged all rows, or that the stream already has them
// with the same hashes. Otherwise the error is one of these:
//   - [FencedError]: the stream has another row in the place of one of these rows;
//   - [ShortStreamError]: the stream ends before row events[0].Seq-1;
//   - [EventSizeError]: a row is larger than the server accepts; no row of its batch was sent;
//   - ctx's error, wrapped: it is unknown whether the rows are, or will be, in the stream;
//   - [nats.ErrConnectionClosed], or the error of a row that cannot be a message.
//
// Other failures are retried until ctx ends.
func (o *Outbox) Publish(ctx context.Context, events []Event) error {
	if err := queue.ValidAccount(o.account); err != nil {
		return err
	}
	for n := range events {
		if events[n].Seq == 0 || events[n].Seq != events[0].Seq+uint64(n) {
			return fmt.Errorf("publish: row %d is in the place of row %d", events[n].Seq, events[0].Seq+uint64(n))
		}
	}
	for len(events) > 0 {
		end := eventsEnd(events)
		if err := o.publishBatch(ctx, events[:end]); err != nil {
			return err
		}
		events = events[end:]
	}
	return nil
}

// eventsEnd returns the number of rows to send next, within the limits on messages and
// bytes.
func eventsEnd(events []Event) int {
	size, end := 0, 0
	for end < len(events) && end < queue.MaxBatch {
		size += len(events[end].Payload)
		if end > 0 && size > queue.MaxBatchBytes {
			break
		}
		end++
	}
	return end
}

// publishBatch retries one batch until its outcome is known. Each retry sends only the rows
// that were not found in the stream.
func (o *Outbox) publishBatch(ctx context.Context, events []Event) error {
	delay := sleep.Growing(publishDelay, publishMost)
	look := &look{outbox: o}
	said := ""
	for {
		err := o.try(ctx, events)
		if errors.Is(err, nats.ErrReconnectBufExceeded) {
			err = queue.ErrDisconnected // without a connection the client cannot buffer the message
		}
		o.setFailing(err)
		if refused(err) {
			var found int
			if found, err = look.find(ctx, events); err == nil {
				if events = events[found:]; len(events) > 0 {
					continue
				}
			}
		}
		if err == nil || final(err) {
			return err
		}
		if ctx.Err() == nil {
			if text := err.Error(); text != said {
				said = text
				o.log.WithError(err).Warnf("rows %d to %d are published again", events[0].Seq, events[len(events)-1].Seq)
			}
			_ = delay.Wait(ctx) // the error is ctx's, which is checked next
		}
		if ctx.Err() != nil {
			return fmt.Errorf("account %s: it is not known whether rows %d to %d are on the events stream: %w (%w)",
				o.account, events[0].Seq, events[len(events)-1].Seq, ctx.Err(), err)
		}
	}
}

// errUnexpectedAck reports that the stream acknowledged messages other than those sent.
var errUnexpectedAck = errors.New("the events stream acknowledged other rows than those that were sent")

// refused reports whether the stream's last message differed from the expected one. That
// message may be another client's, or from an earlier attempt that is still in progress.
func refused(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return errors.Is(err, errUnexpectedAck) || ok && (api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
		api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

// final reports whether a retry would fail too.
func final(err error) bool {
	if _, ok := errors.AsType[*FencedError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*ShortStreamError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*EventSizeError](err); ok {
		return true
	}
	return errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, errNoMessage)
}

// errNoMessage says that a row cannot become a message.
var errNoMessage = errors.New("cannot be published")

// try sends a batch once, with a new batch id, and waits for the acknowledgement of its
// last message. The other messages request no acknowledgement, because the stream refuses
// the later messages if one is missing. Outside an atomic batch, the first message requests
// one too. Otherwise another client's message could take its place, most likely between two
// batches, and the second message would still be accepted.
func (o *Outbox) try(ctx context.Context, events []Event) error {
	if !o.js.Conn().IsConnected() {
		if err := o.js.AwaitConnected(ctx); err != nil {
			return err
		}
	}
	messages, size, err := o.messages(events)
	if err != nil {
		return err
	}
	last := len(messages) - 1
	first, err := o.sendFirst(messages[:last])
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, publishTry+publishMore*time.Duration(size>>20))
	defer cancel()
	defer o.endWithConnection(cancel)()
	ack, err := o.js.Store(ctx, messages[last])
	if err != nil {
		return err
	}
	if ack.Sequence != events[last].Seq || o.Before && last > 0 && ack.Count != len(messages) {
		return fmt.Errorf("%w: %d to message %d, and not %d to row %d", errUnexpectedAck, ack.Count, ack.Sequence, len(messages), events[last].Seq)
	}
	if first == nil {
		return nil
	}
	select {
	case <-first.Ok(): // stored at the expected sequence
		return nil
	case err := <-first.Err():
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sendFirst sends all messages of an attempt except the last. first is the pending
// acknowledgement of the first message, or nil if none was requested.
func (o *Outbox) sendFirst(messages []*nats.Msg) (first jetstream.PubAckFuture, err error) {
	for n, msg := range messages {
		if n == 0 && !o.Before {
			first, err = o.js.PublishMsgAsync(msg)
		} else {
			err = o.js.Conn().PublishMsg(msg)
		}
		if err != nil {
			return nil, fmt.Errorf("publish to %s: %w", msg.Subject, err)
		}
	}
	return first, nil
}

// endWithConnection calls end if the connection is lost before stop is called, because the
// acknowledgement can then no longer arrive.
func (o *Outbox) endWithConnection(end context.CancelFunc) (stop func()) {
	lost, stopped := o.js.Conn().StatusChanged(nats.RECONNECTING, nats.CLOSED), make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-lost:
			end()
		case <-stopped:
		}
	})
	return func() {
		close(stopped)
		watching.Wait()
		o.js.Conn().RemoveStatusListener(lost)
	}
}

// messages returns the messages of rows, and their size in bytes. Each message contains the
// sequence before it, except in a batch: there only the first does, as the server requires.
func (o *Outbox) messages(events []Event) (messages []*nats.Msg, size int64, err error) {
	id, most, batch := nuid.Next(), o.js.MaxPayload(), o.Before && len(events) > 1
	for n := range events {
		msg, err := eventMessage(o.account, &events[n])
		if err != nil {
			return nil, 0, fmt.Errorf("%w: %w", errNoMessage, err)
		}
		if n == 0 || !batch {
			expectLast(msg, events[n].Seq-1)
		}
		if batch {
			msg.Header[queue.HeaderBatchID], msg.Header[queue.HeaderBatchSequence] = []string{id}, []string{strconv.Itoa(n + 1)}
			if n == len(events)-1 {
				msg.Header[queue.HeaderBatchCommit] = []string{"1"}
			}
		}
		bytes := int64(msg.Size() - len(msg.Subject)) // max_payload limits headers and payload
		if most > 0 && bytes > most {
			return nil, 0, &EventSizeError{Account: o.account, Seq: events[n].Seq, Bytes: bytes, Most: most}
		}
		messages, size = append(messages, msg), size+bytes
	}
	return messages, size, nil
}
