// Errors that callers of this package match.

package queue

import (
	"errors"
	"fmt"
)

var (
	// ErrNoAccount reports that the server has streams of other accounts but none of this
	// one: the account is not configured there.
	ErrNoAccount = errors.New("the account is not configured on this server")

	// ErrStopping reports that the answering runner stopped, or lost the account, before it
	// was done. A requested change may have been made or not. Ask again.
	ErrStopping = errors.New("the runner stopped before it could answer")

	// ErrDisconnected reports that the connection to NATS was lost before a command could
	// be published. Publishing it again is safe: an id is done once.
	ErrDisconnected = errors.New("the connection to NATS was lost")
)

// StreamError refuses a stream whose settings would lose data or break the order of work.
// Field is the setting's name in NATS's stream configuration.
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
