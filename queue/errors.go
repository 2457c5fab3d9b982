// This file has errors that callers of this package match.

package queue

import (
	"errors"
	"fmt"
)

var (
	// ErrNoAccount reports that the server has no streams of this account, because the account
	// is not configured there.
	ErrNoAccount = errors.New("the account is not configured on this server")

	// ErrStopping reports that the runner stopped or lost the account before it replied, or
	// that the connection was lost. A requested change may or may not have been made. Send the
	// request again.
	ErrStopping = errors.New("the runner stopped before it could answer")

	// ErrDisconnected reports that the connection to NATS was lost before a command was
	// published, or before its result arrived. Publishing the command again is safe, because a
	// command id is executed once.
	ErrDisconnected = errors.New("the connection to NATS was lost")
)

// StreamError reports a stream whose settings would lose data or break the order of
// commands. Field is the name of the setting in NATS's stream configuration.
type StreamError struct {
	Stream string
	Field  string
	Have   string
	Want   string
}

// Error says which stream and field is wrong, with both values.
func (e *StreamError) Error() string {
	return fmt.Sprintf("stream %s: %s is %s, must be %s: change it with `nats stream edit`, or move the stream away",
		e.Stream, e.Field, e.Have, e.Want)
}
