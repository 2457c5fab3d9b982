// This file has the errors of the outbox that callers match.

package outbox

import (
	"fmt"
)

// DivergedError reports that an account's events stream and its ledger differ. Nothing was
// published after the difference was found. LedgerHash is "" if the ledger has no row
// StreamSeq. StreamHash is "" if the message in the stream is not from an outbox.
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

// FencedError reports that the events stream has another row in the place of a row given to
// [Outbox.Publish]. Another runner has the account, or had it in the meantime. StreamHash is
// "" if the message in the stream was not published as a row. It is also "" if the message
// was already removed from the start of the stream.
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

// ShortStreamError reports that an account's events stream ends before the row after which
// [Outbox.Publish] must continue, so the stream has lost its end.
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
