// Errors of the outbox that callers match.

package outbox

import (
	"fmt"
)

// DivergedError reports that an account's events stream and its ledger differ. Nothing was
// published after the difference was detected. LedgerHash is empty if the ledger has no row
// StreamSeq. StreamHash is empty if no outbox published the message in the stream.
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

// FencedError reports that an account's events stream holds another row in place of one
// from [Outbox.Publish]: another runner has the account, or has had it since. StreamHash is
// empty if the message there was not published as a row, or was already removed from the
// stream's front.
type FencedError struct {
	Account    string
	Seq        uint64 // journal sequence, and stream sequence, of the row
	StreamHash string // of the row on the stream
	OwnHash    string // of the row to be published
}

// Error names the row and both hashes.
func (e *FencedError) Error() string {
	return fmt.Sprintf("account %s: the events stream holds another row %d (hash %q, own %q): another runner has written it",
		e.Account, e.Seq, e.StreamHash, e.OwnHash)
}

// ShortStreamError reports that an account's events stream ends before the row that
// [Outbox.Publish] must continue after: the stream has lost its end.
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

// EventSizeError reports that an event is larger than the NATS server accepts. Retrying
// does not help.
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
