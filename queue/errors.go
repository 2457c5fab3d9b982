// The errors that callers of this package match.

package queue

import (
	"errors"
	"fmt"
)

var (
	// ErrNoAccount says that the server has streams of other accounts and none of this one:
	// the account is not configured there.
	ErrNoAccount = errors.New("the account is not configured on this server")

	// ErrNotTaken says that nothing takes the commands of an account at the moment: no
	// runner has made its streams yet, they have no leader, or the hub of a leaf node is
	// away. Nothing was published; publishing again may work.
	ErrNotTaken = errors.New("nothing takes the account's commands at the moment")

	// ErrNoRunner says that nothing answers an account's service subject: no
	// runner holds the account at the moment, or it does not know the verb.
	ErrNoRunner = errors.New("no runner answers for the account")

	// ErrStopping says that the runner that had begun to answer stopped, or lost
	// the account, before it was done: a change that was asked for may have been
	// made or not. Ask again.
	ErrStopping = errors.New("the runner stopped before it could answer")

	// ErrDisconnected says that the connection to NATS was lost before a command
	// could be published. It may be published again: an id is done once.
	ErrDisconnected = errors.New("the connection to NATS was lost")

	// ErrIntakeClosed is returned by [Intake.Fetch] after [Intake.Close].
	ErrIntakeClosed = errors.New("intake is closed")
)

// StreamError refuses a stream whose settings would lose data or break the
// order of work. Field is the setting's name in NATS's stream configuration.
type StreamError struct {
	Stream string
	Field  string
	Have   string
	Want   string
}

// Error names the stream, the field, and both values.
func (e *StreamError) Error() string {
	return fmt.Sprintf("stream %s: %s is %s, must be %s: change it with `nats stream edit`, or move the stream away",
		e.Stream, e.Field, e.Have, e.Want)
}

// ConsumerError refuses a consumer of the commands stream that somebody paused or changed:
// commands are delivered late, in part, or not at all.
type ConsumerError struct {
	Stream, Consumer string
	Why, Do          string
}

// Error names the consumer, what is wrong, and the command that mends it.
func (e *ConsumerError) Error() string {
	return fmt.Sprintf("consumer %s of stream %s %s: run `", e.Consumer, e.Stream, e.Why) + e.Do + "`"
}

// DivergedError says that an account's events stream and its ledger differ. Nothing
// was published after the difference was noticed. LedgerHash
// is empty when the ledger has no row StreamSeq; StreamHash is empty when the
// message in the stream was not published by an outbox.
type DivergedError struct {
	Account    string
	StreamSeq  uint64 // journal seq (or stream sequence) of the stream's last message
	LedgerSeq  uint64 // last journal seq that the outbox knows the ledger to have
	StreamHash string
	LedgerHash string
	Reason     string // the difference in words
}

// Error explains the difference in one line.
func (e *DivergedError) Error() string {
	return fmt.Sprintf("account %s: events stream and ledger differ at %d (ledger known to %d): %s",
		e.Account, e.StreamSeq, e.LedgerSeq, e.Reason)
}

// FencedError says that an account's events stream holds another row where
// [Outbox.Publish] was to put one: another runner has the account, or has had it since.
// StreamHash is empty when the message there was not published as a row, or was removed
// from the stream's front already.
type FencedError struct {
	Account    string
	Seq        uint64 // journal sequence, and stream sequence, of the row
	StreamHash string // of the row that is there
	OwnHash    string // of the row that was to be published
}

// Error names the row and both hashes.
func (e *FencedError) Error() string {
	return fmt.Sprintf("account %s: the events stream holds another row %d (hash %q, own %q): another runner has written it",
		e.Account, e.Seq, e.StreamHash, e.OwnHash)
}

// ShortStreamError says that an account's events stream ends before the row behind which
// [Outbox.Publish] was to put the next: it has lost its end.
type ShortStreamError struct {
	Account   string
	StreamSeq uint64 // of the stream's last message; 0: it is empty
	Seq       uint64 // of the row that it must hold
}

// Error names both ends.
func (e *ShortStreamError) Error() string {
	return fmt.Sprintf("account %s: the events stream ends with row %d and must hold row %d: it has lost its end",
		e.Account, e.StreamSeq, e.Seq)
}

// EventSizeError says that an event is larger than the NATS server takes. Publishing it
// again does not help.
type EventSizeError struct {
	Account string
	Seq     uint64
	Bytes   int64 // with its headers
	Most    int64 // the server's max_payload
}

// Error names the row, its size and the limit.
func (e *EventSizeError) Error() string {
	return fmt.Sprintf("account %s: journal row %d has %d bytes as a message, and the NATS server takes %d: raise its max_payload",
		e.Account, e.Seq, e.Bytes, e.Most)
}

// BatchError says which atomic batch of [Queue.PublishCommands] was refused or
// left without an answer. Batches before it are stored, batches after it were
// not sent. First and Last are indexes into the given commands, inclusive.
type BatchError struct {
	Batch int // counted from 1
	First int
	Last  int
	Err   error
}

// Error names the batch and the range of commands in it.
func (e *BatchError) Error() string {
	return fmt.Sprintf("batch %d (commands %d to %d): %v", e.Batch, e.First+1, e.Last+1, e.Err)
}

// Unwrap returns the cause.
func (e *BatchError) Unwrap() error { return e.Err }
