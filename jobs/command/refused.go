// RefusedError: a person's request that cannot be done.

package command

import "fmt"

// RefusedError is a person's request that cannot be done, and why.
type RefusedError struct {
	Reason  string
	Unknown bool // there is nothing of the id that it names
}

// Error is the reason.
func (e *RefusedError) Error() string { return e.Reason }

// Refuse is a RefusedError with this reason.
func Refuse(format string, args ...any) error {
	return &RefusedError{Reason: fmt.Sprintf(format, args...)}
}

// RefuseUnknown is Refuse of a request for an id of which there is nothing.
func RefuseUnknown(format string, args ...any) error {
	return &RefusedError{Reason: fmt.Sprintf(format, args...), Unknown: true}
}
