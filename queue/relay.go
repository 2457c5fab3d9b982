// The relay: it publishes the journal, in order, to the events stream.

package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"perennial/ledger/sleep"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/sirupsen/logrus"
)

const (
	// HeaderSeq and HeaderHash carry a row's place in the journal beside the
	// event, so that a relay finds its place without reading bodies.
	HeaderSeq  = "Perennial-Seq"
	HeaderHash = "Perennial-Hash"

	// relayChunk is how many rows are read and published between two
	// acknowledgements asked for; relayWindow how many such chunks may be
	// outstanding at once.
	relayChunk  = 256
	relayWindow = 4
	// relayAckTimeout is after how long without an answer the relay finds its
	// place again.
	relayAckTimeout = 10 * time.Second
)

// Event is a journal row as it is published.
type Event struct {
	Seq     uint64 // journal sequence, from 1 without gaps
	Hash    string // the row's hash
	Type    string // "order.delivered": the last tokens of the subject
	Payload []byte // the finished CloudEvents JSON
	// ReplyTo is the inbox that gets Reply beside the event; "": none does.
	ReplyTo string
	Reply   []byte
	// Traceparent and Tracestate are headers of the event's message; "": it has none.
	Traceparent, Tracestate string
}

// Source is the journal, as the relay reads it.
type Source interface {
	// Events returns at most limit rows with sequences after+1, after+2, …; none
	// when there are none yet. Their payloads may be written over by the next
	// call.
	Events(ctx context.Context, after uint64, limit int) ([]Event, error)
	// Changed returns a channel that is closed, or receives, once rows after
	// the given sequence exist.
	Changed(after uint64) <-chan struct{}
	// HashAt returns the hash of one row; found is false when the journal has
	// no such row.
	HashAt(ctx context.Context, seq uint64) (hash string, found bool, err error)
}

// Relay publishes an account's journal, in order, to its events stream. The
// stream is for that journal alone: a row's sequence is its stream sequence,
// and every publication states the sequence before it, so that neither a gap
// nor a duplicate can be stored. A stream that lost its tail in a power cut is
// filled again; one that was emptied only when Refill says so.
type Relay struct {
	// Held is what the stream held before this process began.
	Held Held
	// Refill publishes all again that a stream has lost, however much it is, until what
	// it held is there again.
	Refill bool
	// Begins says with which row the stream may begin at the latest: the ledger
	// knows that what is before it was removed on purpose. Nil: with row 1.
	Begins func(context.Context) (uint64, error)
	// RefillAdvice is added to the error without Refill: how a person asks for it.
	RefillAdvice string

	// AnswersOnly says that the rows that the source shows are on the stream already: a
	// [Publisher] puts them there before they are committed. Run publishes nothing then. It
	// sends the answers of the rows behind Answered, in order, and ends with ctx only.
	AnswersOnly bool
	// Answered is the last row whose answer was sent before this process began.
	Answered uint64

	// AnswersAgain is for how long answers to inboxes are sent once more when it is over:
	// clients of a server that has just started are not back yet. Default: 5 seconds.
	AnswersAgain time.Duration

	queue   *Queue
	account string
	source  Source
	log     *logrus.Entry
	early   earlyAnswers

	mu        sync.Mutex
	published uint64
	most      uint64        // the greatest value that published had
	moved     chan struct{} // closed when published grows
	failing   error         // of the last session; nil since something was published
}

// NewRelay makes the relay of an account.
func NewRelay(q *Queue, account string, source Source) *Relay {
	return &Relay{queue: q, account: account, source: source,
		log: q.log.WithField("part", "relay").WithField("account", account), moved: make(chan struct{})}
}

// Published is the last journal sequence that the stream has acknowledged; with
// AnswersOnly the last one whose answer was sent, or that asks for none.
func (r *Relay) Published() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.published
}

// Wait returns when the stream has acknowledged seq, or with ctx's error.
func (r *Relay) Wait(ctx context.Context, seq uint64) error {
	for {
		r.mu.Lock()
		published, moved := r.published, r.moved
		r.mu.Unlock()
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

// setPublished may also step back: a stream that lost its tail has less.
func (r *Relay) setPublished(seq uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if seq > r.published {
		close(r.moved)
		r.moved = make(chan struct{})
	}
	r.published, r.most, r.failing = seq, max(r.most, seq), nil
}

// Failing is why nothing could be published since the last row that was; nil where nothing
// failed.
func (r *Relay) Failing() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failing
}

func (r *Relay) setFailing(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failing = err
}

// Run publishes until ctx ends (its error) or ledger and stream have diverged
// ([DivergedError]): then the account must stop. Whatever else fails is tried
// again with growing delays, beginning with finding the place anew.
func (r *Relay) Run(ctx context.Context) error {
	delay := sleep.Growing(50*time.Millisecond, 5*time.Second)
	defer r.answerTwice()()
	for {
		before := r.Published()
		err := r.session(ctx)
		if _, diverged := errors.AsType[*DivergedError](err); diverged {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if r.Published() > before {
			delay.Reset()
		}
		r.setFailing(err)
		r.log.WithError(err).Warn("relay finds its place again")
		if err := delay.Wait(ctx); err != nil {
			return err
		}
	}
}

// session finds the place and publishes from there until something fails.
func (r *Relay) session(ctx context.Context) error {
	if r.AnswersOnly {
		return r.answerRows(ctx)
	}
	last, err := r.findPlace(ctx)
	if err != nil {
		return err
	}
	r.setPublished(last)
	inbox := r.queue.nc.NewInbox()
	acks, err := r.queue.nc.SubscribeSync(inbox)
	if err != nil {
		return err
	}
	defer func() { _ = acks.Unsubscribe() }()
	lost := r.queue.nc.StatusChanged(nats.RECONNECTING, nats.CLOSED)
	defer r.queue.nc.RemoveStatusListener(lost)
	session := &relaySession{relay: r, inbox: inbox, acks: acks, lost: lost, next: last + 1}
	return session.publish(ctx)
}

// findPlace reads the stream's last message and compares it with the ledger.
func (r *Relay) findPlace(ctx context.Context) (uint64, error) {
	stream, err := r.queue.js.Stream(ctx, EventsStream(r.account))
	if err != nil {
		return 0, fmt.Errorf("events stream: %w", err)
	}
	last := stream.CachedInfo().State.LastSeq
	if err := r.checkHeld(last); err != nil {
		return 0, err
	}
	if last == 0 {
		return 0, nil
	}
	msg, err := stream.GetMsg(ctx, last)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return 0, r.diverged(last, "", "", "the stream's last message is missing although the stream counts it; the events stream must deny deletes and purges by others")
	}
	if err != nil {
		return 0, fmt.Errorf("last event: %w", err)
	}
	if err := r.compare(ctx, last, msg.Subject, msg.Header); err != nil {
		return 0, err
	}
	first := stream.CachedInfo().State.FirstSeq
	if err := r.checkBegin(ctx, first); err != nil {
		return 0, err
	}
	return last, r.compareBefore(ctx, stream, first, last)
}

// checkBegin refuses a stream that has lost more of its first events than the
// ledger knows to have been removed.
func (r *Relay) checkBegin(ctx context.Context, first uint64) error {
	if first <= 1 {
		return nil
	}
	latest := uint64(1)
	if r.Begins != nil {
		var err error
		if latest, err = r.Begins(ctx); err != nil {
			return err
		}
	}
	if why := MissingBefore(first, latest); why != "" {
		return r.diverged(first, "", "", why)
	}
	return nil
}

// checkHeld refuses a stream that lost more than a power cut takes, and says
// what it lost in any case.
func (r *Relay) checkHeld(last uint64) error {
	r.mu.Lock()
	held := Held{Last: max(r.Held.Last, r.most), Firm: r.Held.Firm}
	if last == 0 && r.most > 0 {
		held.Firm = max(held.Firm, r.most) // this process has seen it there
	}
	refill := r.Refill && r.most < r.Held.Last
	r.mu.Unlock()
	if missing := held.Missing(last); missing != "" && !refill {
		return r.diverged(last, "", "", missing+"\n"+r.RefillAdvice)
	}
	if last < held.Last {
		r.log.WithField("stream_seq", last).WithField("published_seq", held.Last).
			Warn("the events stream has lost rows that were published: they are published again from the ledger; prove the ledger with `perennial ledger verify --expect`")
	}
	return nil
}

// compareBefore compares the messages that could have been in flight when the
// stream was last written: a message that the relay did not publish takes the place
// of a row there, and the rows behind it match again.
func (r *Relay) compareBefore(ctx context.Context, stream jetstream.Stream, first, last uint64) error {
	if last > relayChunk*relayWindow {
		first = max(first, last-relayChunk*relayWindow)
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
	messages, err := consumer.Messages(jetstream.PullMaxMessages(pullMessages), jetstream.PullHeartbeat(pullHeartbeat))
	if err != nil {
		return fmt.Errorf("events from %d on: %w", first, err)
	}
	defer messages.Stop()
	for seq := first; seq < last; seq++ {
		if err := r.compareNext(ctx, seq, messages); err != nil {
			return err
		}
	}
	return nil
}

// compareTimeout bounds the reading of what compareBefore compares.
const compareTimeout = 30 * time.Second

func (r *Relay) compareNext(ctx context.Context, seq uint64, messages jetstream.MessagesContext) error {
	msg, err := messages.Next(jetstream.NextContext(ctx))
	if err != nil {
		return fmt.Errorf("event %d: %w", seq, err)
	}
	meta, err := msg.Metadata()
	if err != nil {
		return fmt.Errorf("event %d: %w", seq, err)
	}
	if meta.Sequence.Stream != seq {
		return r.diverged(seq, "", "", fmt.Sprintf("the stream's message %d is missing: the next one is %d; the events stream must deny deletes and purges by others", seq, meta.Sequence.Stream))
	}
	return r.compare(ctx, seq, msg.Subject(), msg.Headers())
}

// compare proves that a message of the stream is the ledger's row of the same
// sequence.
func (r *Relay) compare(ctx context.Context, last uint64, subject string, header nats.Header) error {
	text, hash := header.Get(HeaderSeq), header.Get(HeaderHash)
	seq, err := strconv.ParseUint(text, 10, 64)
	if err != nil || hash == "" {
		return r.diverged(last, "", "", fmt.Sprintf("message %d on %s was not published by this program: another publisher has permission for the events subjects, revoke it", last, subject))
	}
	if seq != last {
		return r.diverged(seq, hash, "", fmt.Sprintf("journal row %d is message %d of the stream: messages were added or removed by another client", seq, last))
	}
	own, found, err := r.source.HashAt(ctx, seq)
	switch {
	case err != nil:
		return fmt.Errorf("hash of journal row %d: %w", seq, err)
	case !found:
		return r.diverged(seq, hash, "", "the stream is ahead of the ledger: the ledger is older than what was published, as after a restore")
	case own != hash:
		return r.diverged(seq, hash, own, "the stream carries another hash at this row: its history is not this ledger's")
	}
	return nil
}

func (r *Relay) diverged(seq uint64, streamHash, ledgerHash, reason string) error {
	return &DivergedError{Account: r.account, StreamSeq: seq, LedgerSeq: r.Published(),
		StreamHash: streamHash, LedgerHash: ledgerHash, Reason: reason}
}
