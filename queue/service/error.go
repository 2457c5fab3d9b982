// Error answers of the service.

package service

import "errors"

// Error is an error answer of an account's service. A verb returns one to choose code and
// body; [Request] returns the one that arrived.
type Error struct {
	Code        string // short and stable, for programs
	Description string // one line, for people
	Body        []byte // JSON; may be empty
}

// ErrorBody is the body of an answer that is an error, where the verb chose no other. The
// headers Nats-Service-Error-Code and Nats-Service-Error say the same.
type ErrorBody struct {
	Code        string `json:"code" doc:"A short and stable code, for programs."`
	Description string `json:"description" doc:"One line, for people."`
}

// Error joins code and description.
func (e *Error) Error() string { return e.Code + ": " + e.Description }

// ErrNoRunner reports that nothing answers an account's service subject: no runner holds
// the account now, or the runner does not know the verb.
var ErrNoRunner = errors.New("no runner answers for the account")
