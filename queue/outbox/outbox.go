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
	"github.com/sirupsen/logrus"

	"perennial/ledger/failpoint"
	"perennial/ledger/sleep"
	"perennial/queue"
	"perennial/queue/events"
)

// Event is a journal row to publish.
type Event struct {
	Seq     uint64 // journal sequence, from 1 without gaps
	Hash    string // hash of the row
	Type    string // such as "order.delivered"; the last tokens of the subject
	Payload []byte // the complete CloudEvents JSON
	// ReplyTo is the inbox to which Reply is also sent. It is "" if there is none.
	ReplyTo string
	Reply   []byte
	// Traceparent and Tracestate are headers of the event's message. They are "" if there are
	// none.
	Traceparent, Tracestate string
}

// Source is the journal that the outbox reads.
type Source interface {
	// Events returns at most limit rows with the sequences after+1, after+2, …. It returns no
	// rows if there are none yet. The next call may overwrite the payloads, but not the
	// replies.
	Events(ctx context.Context, after uint64, limit int) ([]Event, error)
	// Changed returns a channel that is closed, or receives a value, when rows after the
	// given sequence exist.
	Changed(after uint64) <-chan struct{}
	// HashAt returns the hash of one row. found is false if the journal has no such row.
	HashAt(ctx context.Context, seq uint64) (hash string, found bool, err error)
}

// Outbox publishes an account's journal, in order, to its events stream. The stream has no other
// publishers, so a row's sequence is also its stream sequence. Each message, or atomic batch,
// says with which sequence the stream must end before it. The stream can therefore store neither
// a gap nor a duplicate. Before determines whether a row is committed or published first. In
// both cases Run sends the results in the rows to inboxes.
type Outbox struct {
	// Before means that rows are published before they are committed. The committer then
	// calls Publish, and the source has only published rows. Otherwise Run publishes the
	// source's rows.
	Before bool
	// Answered is the last row whose result an earlier process has sent. It is used only if
	// Before is set.
	Answered uint64

	// Held says which rows the stream is known to have had before this process began.
	Held Held
	// Refill allows the outbox to republish everything that the stream has lost. Rows that a
	// power cut may have lost are always republished.
	Refill bool
	// Begins returns the latest row that may be the stream's first row. The ledger knows that
	// earlier rows were removed on purpose. If Begins is nil, the stream must begin with row 1.
	Begins func(context.Context) (uint64, error)
	// RefillAdvice tells an operator how to allow Refill. It is added to the error if Refill is
	// needed and not set.
	RefillAdvice string

	// AnswersAgain is how long after the start the early results are sent to their inboxes a
	// second time. When a server has just started, some clients need this time to reconnect.
	// Default: 5 seconds.
	AnswersAgain time.Duration

	js      *queue.JetStream
	account string
	source  Source
	log     *logrus.Entry
	early   earlyAnswers

	mu        sync.Mutex
	published uint64
	most      uint64        // the greatest value of published
	moved     chan struct{} // closed when published grows
	failing   error         // error of the last attempt; nil after a successful publication
}

// New returns the outbox of an account. source may be nil if only Publish is used.
func New(js *queue.JetStream, account string, source Source) *Outbox {
	return &Outbox{js: js, account: account, source: source,
		log: js.Log().WithField("part", "outbox").WithField("account", account), moved: make(chan struct{})}
}

// Published returns the last journal sequence that is in the stream. If the row has a result,
// the result was sent too.
func (o *Outbox) Published() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.published
}

// Wait waits until the stream has acknowledged seq. It returns ctx's error if ctx ends
// first.
func (o *Outbox) Wait(ctx context.Context, seq uint64) error {
	for {
		o.mu.Lock()
		published, moved := o.published, o.moved
		o.mu.Unlock()
		if published >= seq {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// setPublished sets the last published sequence. The sequence decreases if the stream has lost
// its end.
func (o *Outbox) setPublished(seq uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if seq > o.published {
		close(o.moved)
		o.moved = make(chan struct{})
	}
	o.published, o.most, o.failing = seq, max(o.most, seq), nil
}

// Failing returns the error of the last attempt to publish. It returns nil if the attempt
// succeeded.
func (o *Outbox) Failing() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.failing
}

func (o *Outbox) setFailing(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failing = err
}

// Run publishes until ctx ends, and then returns ctx's error. If ledger and stream have
// diverged, it returns a [DivergedError], and the account must stop. After other failures it
// retries with growing delays, and determines its position again each time.
func (o *Outbox) Run(ctx context.Context) error {
	delay := sleep.Growing(50*time.Millisecond, 5*time.Second)
	defer o.answerTwice()()
	for {
		before := o.Published()
		err := o.session(ctx)
		if _, diverged := errors.AsType[*DivergedError](err); diverged {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if o.Published() > before {
			delay.Reset()
		}
		o.setFailing(err)
		o.log.WithError(err).Warn("the outbox finds its place again")
		if err := delay.Wait(ctx); err != nil {
			return err
		}
	}
}

// session determines the position and sends rows as they appear. It returns only with an
// error.
func (o *Outbox) session(ctx context.Context) (err error) {
	done, lost := max(o.Answered, o.Published()), (chan nats.Status)(nil)
	if !o.Before {
		if done, err = o.findPlace(ctx); err != nil {
			return err
		}
		lost = o.js.Conn().StatusChanged(nats.RECONNECTING, nats.CLOSED)
		defer o.js.Conn().RemoveStatusListener(lost)
	}
	o.setPublished(done)
	for {
		changed := o.source.Changed(done)
		events, err := o.source.Events(ctx, done, queue.MaxBatch)
		if err != nil {
			return fmt.Errorf("read journal after %d: %w", done, err)
		}
		if len(events) > 0 {
			if err := o.send(ctx, done, events); err != nil {
				return err
			}
			done += uint64(len(events))
			o.setPublished(done)
			continue
		}
		select {
		case <-changed:
		case status := <-lost:
			return fmt.Errorf("connection is %s", status)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// send sends the results in the given rows, and publishes the rows that are not in the stream
// yet. done is the sequence before the first row. Results go first: if the runner stops in
// between, both are sent again.
func (o *Outbox) send(ctx context.Context, done uint64, events []Event) error {
	if err := o.answerAll(ctx, done, events); err != nil || o.Before {
		return err
	}
	if err := o.Publish(ctx, events); err != nil {
		return err
	}
	failpoint.Reached(ctx, "outbox.sent")
	return nil
}

// findPlace compares the stream's last messages with the ledger. It returns the sequence of the
// last message. It returns 0 if the stream is empty.
func (o *Outbox) findPlace(ctx context.Context) (uint64, error) {
	stream, err := o.js.Stream(ctx, queue.EventsStream(o.account))
	if err != nil {
		return 0, fmt.Errorf("events stream: %w", err)
	}
	last := stream.CachedInfo().State.LastSeq
	if err := o.checkHeld(last); err != nil {
		return 0, err
	}
	if last == 0 {
		return 0, nil
	}
	msg, err := stream.GetMsg(ctx, last)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return 0, o.diverged(last, "", "", "the stream's last message is missing although the stream counts it; the events stream must deny deletes and purges by others")
	}
	if err != nil {
		return 0, fmt.Errorf("last event: %w", err)
	}
	if err := o.compare(ctx, last, msg.Subject, msg.Header); err != nil {
		return 0, err
	}
	first := stream.CachedInfo().State.FirstSeq
	if err := o.checkBegin(ctx, first); err != nil {
		return 0, err
	}
	return last, o.compareBefore(ctx, stream, first, last)
}

// checkBegin returns an error if the stream begins too late. The ledger knows which rows were
// removed on purpose.
func (o *Outbox) checkBegin(ctx context.Context, first uint64) error {
	if first <= 1 {
		return nil
	}
	latest := uint64(1)
	if o.Begins != nil {
		var err error
		if latest, err = o.Begins(ctx); err != nil {
			return err
		}
	}
	if why := MissingBefore(first, latest); why != "" {
		return o.diverged(first, "", "", why)
	}
	return nil
}

// checkHeld returns an error if the stream lost more than a power cut explains. It logs any
// loss.
func (o *Outbox) checkHeld(last uint64) error {
	o.mu.Lock()
	held := Held{Last: max(o.Held.Last, o.most), Firm: o.Held.Firm}
	if last == 0 && o.most > 0 {
		held.Firm = max(held.Firm, o.most) // this process has seen the stream with that row
	}
	refill := o.Refill && o.most < o.Held.Last
	o.mu.Unlock()
	if missing := held.Missing(last); missing != "" && !refill {
		return o.diverged(last, "", "", missing+"\n"+o.RefillAdvice)
	}
	if last < held.Last {
		o.log.WithField("stream_seq", last).WithField("published_seq", held.Last).
			Warn("the events stream has lost rows that were published: they are published again from the ledger; prove the ledger with `perennial ledger verify --expect`")
	}
	return nil
}

// compareBefore compares the messages that may have been in flight when the stream was last
// written. Another client's message may have taken the place of a row. The rows after that
// message match, so a comparison of only the last message would find no difference.
func (o *Outbox) compareBefore(ctx context.Context, stream jetstream.Stream, first, last uint64) error {
	if last > comparedMost {
		first = max(first, last-comparedMost)
	}
	if first >= last {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, compareTimeout)
	defer cancel()
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: first})
	if err != nil {
		return fmt.Errorf("events from %d on: %w", first, err)
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(events.PullAhead), jetstream.PullHeartbeat(events.PullHeartbeat))
	if err != nil {
		return fmt.Errorf("events from %d on: %w", first, err)
	}
	defer messages.Stop()
	for seq := first; seq < last; seq++ {
		if err := o.compareNext(ctx, seq, messages); err != nil {
			return err
		}
	}
	return nil
}

// comparedMost is how many messages compareBefore compares. It exceeds the number of rows that
// are published concurrently.
const comparedMost = 1024

const compareTimeout = 30 * time.Second

func (o *Outbox) compareNext(ctx context.Context, seq uint64, messages jetstream.MessagesContext) error {
	msg, err := messages.Next(jetstream.NextContext(ctx))
	if err != nil {
		return fmt.Errorf("event %d: %w", seq, err)
	}
	meta, err := msg.Metadata()
	if err != nil {
		return fmt.Errorf("event %d: %w", seq, err)
	}
	if meta.Sequence.Stream != seq {
		return o.diverged(seq, "", "", fmt.Sprintf("the stream's message %d is missing: the next one is %d; the events stream must deny deletes and purges by others", seq, meta.Sequence.Stream))
	}
	return o.compare(ctx, seq, msg.Subject(), msg.Headers())
}

// compare returns an error unless a message of the stream is the ledger's row with the same
// sequence.
func (o *Outbox) compare(ctx context.Context, last uint64, subject string, header nats.Header) error {
	text, hash := header.Get(events.HeaderSeq), header.Get(events.HeaderHash)
	seq, err := strconv.ParseUint(text, 10, 64)
	if err != nil || hash == "" {
		return o.diverged(last, "", "", fmt.Sprintf("message %d on %s was not published by this program: another publisher has permission for the events subjects, revoke it", last, subject))
	}
	if seq != last {
		return o.diverged(seq, hash, "", fmt.Sprintf("journal row %d is message %d of the stream: messages were added or removed by another client", seq, last))
	}
	own, found, err := o.source.HashAt(ctx, seq)
	switch {
	case err != nil:
		return fmt.Errorf("hash of journal row %d: %w", seq, err)
	case !found:
		return o.diverged(seq, hash, "", "the stream is ahead of the ledger: the ledger is older than what was published, as after a restore")
	case own != hash:
		return o.diverged(seq, hash, own, "the stream carries another hash at this row: its history is not this ledger's")
	}
	return nil
}

func (o *Outbox) diverged(seq uint64, streamHash, ledgerHash, reason string) error {
	return &DivergedError{Account: o.account, StreamSeq: seq, LedgerSeq: o.Published(),
		StreamHash: streamHash, LedgerHash: ledgerHash, Reason: reason}
}

// DivergedError reports that an account's events stream and its ledger differ. Nothing was
// published after the difference was found. LedgerHash is "" if the ledger has no row with the
// sequence StreamSeq. StreamHash is "" if no outbox published the message in the stream.
type DivergedError struct {
	Account    string
	StreamSeq  uint64 // journal sequence (or stream sequence) of the stream's last message
	LedgerSeq  uint64 // last journal sequence that the outbox knows to be in the ledger
	StreamHash string
	LedgerHash string
	Reason     string // describes the difference
}

// Error describes the difference in one line.
func (e *DivergedError) Error() string {
	return fmt.Sprintf("account %s: events stream and ledger differ at %d (ledger known to %d): %s",
		e.Account, e.StreamSeq, e.LedgerSeq, e.Reason)
}

// FencedError reports that [Outbox.Publish] cannot publish a row, because the events stream
// already has another row with the same sequence. Another runner has the account, or had it in
// the meantime. StreamHash is "" if the message in the stream was not published as a row. It is
// also "" if the message was already removed from the start of the stream.
type FencedError struct {
	Account    string
	Seq        uint64 // sequence of the row in the journal and in the stream
	StreamHash string // hash of the row in the stream
	OwnHash    string // hash of the row to publish
}

// Error returns the row and both hashes.
func (e *FencedError) Error() string {
	return fmt.Sprintf("account %s: the events stream holds another row %d (hash %q, own %q): another runner has written it",
		e.Account, e.Seq, e.StreamHash, e.OwnHash)
}

// ShortStreamError reports that an account's events stream has lost its end. [Outbox.Publish]
// must append rows after row Seq, but the stream ends earlier.
type ShortStreamError struct {
	Account   string
	StreamSeq uint64 // sequence of the stream's last message; 0 if the stream is empty
	Seq       uint64 // sequence of the row that the stream must have
}

// Error returns both sequences.
func (e *ShortStreamError) Error() string {
	return fmt.Sprintf("account %s: the events stream ends with row %d and must hold row %d: it has lost its end",
		e.Account, e.StreamSeq, e.Seq)
}

// EventSizeError reports that an event is larger than the NATS server accepts. A retry
// would fail too.
type EventSizeError struct {
	Account string
	Seq     uint64
	Bytes   int64 // size with its headers
	Most    int64 // the server's max_payload
}

// Error returns the row, its size and the limit.
func (e *EventSizeError) Error() string {
	return fmt.Sprintf("account %s: journal row %d has %d bytes as a message, and the NATS server takes %d: raise its max_payload",
		e.Account, e.Seq, e.Bytes, e.Most)
}

// headerExpectedLast makes the stream refuse a message unless its last message has the
// sequence in the header.
const headerExpectedLast = "Nats-Expected-Last-Sequence"

// eventMessage returns the message of a journal row, without the headers for its position
// in the stream. It returns an error if the row's type cannot be part of a subject.
func eventMessage(account string, event *Event) (*nats.Msg, error) {
	if !queue.ValidToken(event.Type) {
		return nil, fmt.Errorf("journal row %d: type %q cannot be a subject", event.Seq, event.Type)
	}
	msg := &nats.Msg{Subject: queue.EventSubject(account, event.Type), Data: event.Payload, Header: nats.Header{
		events.HeaderSeq:  {strconv.FormatUint(event.Seq, 10)},
		events.HeaderHash: {event.Hash},
		"content-type":    {"application/cloudevents+json"},
	}}
	if event.Traceparent != "" {
		msg.Header.Set("traceparent", event.Traceparent)
	}
	if event.Tracestate != "" {
		msg.Header.Set("tracestate", event.Tracestate)
	}
	return msg, nil
}

func expectLast(msg *nats.Msg, last uint64) {
	msg.Header[headerExpectedLast] = []string{strconv.FormatUint(last, 10)}
}

// Held says which journal rows an account's events stream is known to have had. It comes
// from a file that outlives the process and the stream.
type Held struct {
	// Last is the last journal sequence that the stream acknowledged. It is 0 if there is none.
	Last uint64
	// Firm is a sequence that cannot have been lost in a crash. The stream acknowledged it
	// before a clean stop, or so long ago that the server has synced it since.
	Firm uint64
}

// Missing describes what a stream that ends with row last has lost. It returns "" if the stream
// lost nothing, or no more than a crash or a power cut explains. Missing reports larger losses,
// because the stream would be filled from the ledger again. If somebody had rewritten the ledger
// before, no event would show the change.
func (h Held) Missing(last uint64) string {
	switch {
	case last == 0 && h.Firm > 0:
		return fmt.Sprintf("the events stream is empty, and rows up to %d were published on it", h.Last)
	case last < h.Firm:
		return fmt.Sprintf("the events stream ends with row %d, and row %d was on it long before", last, h.Firm)
	}
	return ""
}

// MissingBefore describes what the start of a stream has lost. first is the stream's first row.
// latest is the latest row that may be the first according to the ledger. MissingBefore returns
// "" if the stream lost nothing.
func MissingBefore(first, latest uint64) string {
	latest = max(latest, 1)
	if first <= latest {
		return ""
	}
	return fmt.Sprintf("the events stream begins with row %d and by this ledger it begins with row %d at the latest: events were removed by another program, or the ledger is an older copy", first, latest)
}
