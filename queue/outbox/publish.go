// The same rows are retried with the same expected sequence until a quorum has acknowledged
// them. After a refusal, the stream's leader says which rows are in the stream.

package outbox

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"perennial/ledger/sleep"
	"perennial/queue"
	"perennial/queue/events"
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

// publishBatch retries one batch until its outcome is known. A retry sends only the rows that
// the stream does not have yet.
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

var errUnexpectedAck = errors.New("the events stream acknowledged other rows than those that were sent")

// refused reports whether the stream refused a message because the stream's last message was not
// the expected one. That message may belong to another client, or to an earlier attempt that is
// still in progress.
func refused(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return errors.Is(err, errUnexpectedAck) || ok && (api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
		api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

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

var errNoMessage = errors.New("cannot be published")

// try sends a batch once, with a new batch id, and waits for the acknowledgement of its last
// message. The other messages request no acknowledgement, because the stream refuses the later
// messages if one is missing. Outside an atomic batch, the first message also requests an
// acknowledgement. Otherwise another client's message could get the sequence of the first
// message, most likely between two batches. The stream would refuse the first message, but still
// accept the second.
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
// acknowledgement of the first message. It is nil if none was requested.
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

// endWithConnection calls end if the connection is lost before stop is called, because an
// acknowledgement can no longer arrive.
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

// messages returns the messages of rows, and their size in bytes. A message says with which
// sequence the stream must end before it. In a batch, only the first message says so, as the
// server requires.
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

const (
	lookers = 16
	// shortFor is how long a leader must report that the stream is too short before Publish
	// returns the error. At first, a new leader may lack rows that another replica has reported.
	shortFor = time.Second
	// shortSeen is the maximum age of a leader's contact with a quorum. If the contact is older,
	// the leader's report of the stream's end does not count. No other leader is elected within
	// 4 s of such a contact.
	shortSeen = 3 * time.Second
)

// errUndecided reports that a refusal is not explained yet: the refused rows may still be
// in progress, or the leader has changed.
var errUndecided = errors.New("the events stream refused rows and does not hold others: they may be in progress")

type look struct {
	outbox *Outbox
	short  <-chan time.Time // fires when the stream has been too short for shortFor; nil if it is not too short
}

// find returns how many of the rows, counted from the first, are in the stream as published. If
// err is nil, at least one is. If the error is neither a [FencedError] nor a [ShortStreamError],
// the rows must be retried.
func (l *look) find(ctx context.Context, rows []Event) (int, error) {
	account := l.outbox.account
	info, err := events.Of(l.outbox.js, account).Info(ctx)
	if err != nil {
		return 0, err
	}
	first, before := info.State.LastSeq+1, rows[0].Seq-1
	if info.State.LastSeq < before {
		return 0, l.isShort(info, before)
	}
	l.short = nil
	there := min(first-rows[0].Seq, uint64(len(rows)))
	if there == 0 {
		return 0, errUndecided
	}
	if rows[0].Seq < info.State.FirstSeq { // later rows were published, and this row was archived
		return 0, &FencedError{Account: account, Seq: rows[0].Seq, OwnHash: rows[0].Hash}
	}
	return int(there), l.compare(ctx, rows[:there])
}

// isShort returns a [ShortStreamError] after a leader with a quorum has reported a short
// stream for shortFor. Until then it returns errUndecided.
func (l *look) isShort(info *jetstream.StreamInfo, before uint64) error {
	if !heardOfQuorum(info.Cluster) {
		l.short = nil
		return errUndecided
	}
	if l.short == nil {
		l.short = time.After(shortFor)
	}
	select {
	case <-l.short:
		return &ShortStreamError{Account: l.outbox.account, StreamSeq: info.State.LastSeq, Seq: before}
	default:
		return errUndecided
	}
}

// heardOfQuorum reports whether a leader has recently heard from enough replicas to be the
// only leader. A single server, which lists no replicas, counts as one.
func heardOfQuorum(cluster *jetstream.ClusterInfo) bool {
	if cluster == nil {
		return true
	}
	heard := 1
	for _, replica := range cluster.Replicas {
		if !replica.Offline && replica.Active < shortSeen {
			heard++
		}
	}
	return heard > (len(cluster.Replicas)+1)/2
}

// compare returns the error for the first row that differs from the leader's row.
func (l *look) compare(ctx context.Context, events []Event) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make([]error, len(events))
	next := make(chan int)
	var readers sync.WaitGroup
	for range min(lookers, len(events)) {
		readers.Go(func() {
			for n := range next {
				failed[n] = l.compareRow(ctx, &events[n])
			}
		})
	}
	for n := range events {
		next <- n
	}
	close(next)
	readers.Wait()
	var later error
	for _, err := range failed {
		if _, fenced := errors.AsType[*FencedError](err); fenced {
			return err
		}
		if later == nil {
			later = err
		}
	}
	return later
}

func (l *look) compareRow(ctx context.Context, event *Event) error {
	account := l.outbox.account
	there, found, err := events.Of(l.outbox.js, account).RowAt(ctx, event.Seq)
	switch {
	case err != nil:
		return fmt.Errorf("compare row %d: %w", event.Seq, err)
	case !found: // the leader has changed
		return errUndecided
	case there.Seq != event.Seq || there.Hash != event.Hash:
		return &FencedError{Account: account, Seq: event.Seq, StreamHash: there.Hash, OwnHash: event.Hash}
	}
	return nil
}

const (
	// answersAgain is the default of Outbox.AnswersAgain. It exceeds the interval at which
	// clients try to reconnect to a lost server, about two seconds.
	answersAgain = 5 * time.Second
	mostEarly    = 10_000
)

// earlyAnswers keeps the results that are sent soon after the start, because some clients may
// not have reconnected yet.
type earlyAnswers struct {
	mu   sync.Mutex
	open bool
	sent []earlyAnswer
}

type earlyAnswer struct {
	inbox string
	data  []byte
}

func (e *earlyAnswers) begin() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.open = true
}

func (e *earlyAnswers) add(inbox string, data []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.open && len(e.sent) < mostEarly {
		e.sent = append(e.sent, earlyAnswer{inbox, data})
	}
}

func (e *earlyAnswers) end() []earlyAnswer {
	e.mu.Lock()
	defer e.mu.Unlock()
	sent := e.sent
	e.open, e.sent = false, nil
	return sent
}

func (o *Outbox) answerTwice() (stop func()) {
	wait := o.AnswersAgain
	if wait == 0 {
		wait = answersAgain
	}
	o.early.begin()
	timer := time.AfterFunc(wait, func() {
		for _, a := range o.early.end() {
			if err := queue.Answer(o.js, o.account, a.inbox, a.data); err != nil {
				o.log.WithError(err).Warn("an answer was not sent again to its inbox")
				return
			}
		}
	})
	return func() { timer.Stop() }
}

// answerAll sends the results in the given rows. done is the sequence before the first row. If
// no publication follows, answerAll waits until the server has received the results. Otherwise a
// lost connection could lose results that are still in the client's buffer.
func (o *Outbox) answerAll(ctx context.Context, done uint64, events []Event) error {
	sent := false
	for n := range events {
		event := &events[n]
		if event.Seq != done+uint64(n)+1 {
			return fmt.Errorf("the journal gave row %d where %d follows", event.Seq, done+uint64(n)+1)
		}
		if event.ReplyTo == "" {
			continue
		}
		if err := queue.Answer(o.js, o.account, event.ReplyTo, event.Reply); err != nil {
			return fmt.Errorf("answer of journal row %d: %w", event.Seq, err)
		}
		o.early.add(event.ReplyTo, event.Reply)
		sent = true
	}
	if !sent || !o.Before {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	if err := o.js.Conn().FlushWithContext(limited); err != nil {
		return fmt.Errorf("answers of journal rows %d to %d: %w", done+1, done+uint64(len(events)), err)
	}
	return nil
}

const answerTimeout = 5 * time.Second
