// The answers of the service that are errors.

package service

import "errors"

// Error is an answer of an account's service that is an error. A verb
// returns one to choose code and body; [Request] returns what arrived.
type Error struct {
	Code        string // short and stable, for programs
	Description string // one line, for people
	Body        []byte // JSON; may be empty
}

// ErrorBody is the body of an answer that is an error, where the verb chose no other. The
// headers Nats-Service-Error-Code and Nats-Service-Error say the same.
type ErrorBody struct {
	Code        string `json:"code" doc:"Short and stable, for programs."`
	Description string `json:"description" doc:"One line, for people."`
}

// Error joins code and description.
func (e *Error) Error() string { return e.Code + ": " + e.Description }

// ErrNoRunner says that nothing answers an account's service subject: no
// runner holds the account at the moment, or it does not know the verb.
var ErrNoRunner = errors.New("no runner answers for the account")
