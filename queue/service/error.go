// This file has the error replies of the service.

package service

import "errors"

// Error is an error reply of an account's service. A handler returns an Error to choose its
// code and body. [Request] returns the Error that it received.
type Error struct {
	Code        string // short and stable, for programs
	Description string // one line, for people
	Body        []byte // JSON; may be empty
}

// ErrorBody is the body of an error reply, unless the handler chose another body. The
// reply's headers for the code and the description (NATS's service API) have the same
// values.
type ErrorBody struct {
	Code        string `json:"code" doc:"A short and stable code, for programs."`
	Description string `json:"description" doc:"One line, for people."`
}

// Error returns the code and the description.
func (e *Error) Error() string { return e.Code + ": " + e.Description }

// ErrNoRunner reports that nothing replies on an account's service subject: no runner has
// the account now, or the runner does not know the verb.
var ErrNoRunner = errors.New("no runner answers for the account")
