// RefusedError: a person's request that cannot be done.

package command

import "fmt"

// RefusedError is a person's request that cannot be done, and why.
type RefusedError struct {
	Reason  string
	Unknown bool // there is nothing of the id that it names
	// Unconfirmed says that the request is possible and looks like a slip: it has to say
	// that it is meant.
	Unconfirmed bool
}

// Error is the reason.
func (e *RefusedError) Error() string { return e.Reason }

// Refuse is a RefusedError with this reason.
func Refuse(format string, args ...any) error {
	return &RefusedError{Reason: fmt.Sprintf(format, args...)}
}

// RefuseUnconfirmed is Refuse of a request that looks like a slip.
func RefuseUnconfirmed(format string, args ...any) error {
	return &RefusedError{Reason: fmt.Sprintf(format, args...), Unconfirmed: true}
}

// RefuseUnknown is Refuse of a request for an id of which there is nothing.
func RefuseUnknown(format string, args ...any) error {
	return &RefusedError{Reason: fmt.Sprintf(format, args...), Unknown: true}
}
