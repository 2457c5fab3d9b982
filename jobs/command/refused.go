// This file has RefusedError, the refusal of an operator's request.

package command

import "fmt"

// RefusedError says why an operator's request is refused.
type RefusedError struct {
	Reason  string
	Unknown bool // the id in the request is unknown
	// Unconfirmed says that the request is possible but looks like a mistake, so it must be
	// confirmed.
	Unconfirmed bool
}

// Error returns the reason.
func (e *RefusedError) Error() string { return e.Reason }

// Refuse returns a RefusedError with the formatted reason.
func Refuse(format string, args ...any) error {
	return &RefusedError{Reason: fmt.Sprintf(format, args...)}
}

// RefuseUnconfirmed returns a RefusedError for a request that must be confirmed.
func RefuseUnconfirmed(format string, args ...any) error {
	return &RefusedError{Reason: fmt.Sprintf(format, args...), Unconfirmed: true}
}

// RefuseUnknown returns a RefusedError for an unknown id.
func RefuseUnknown(format string, args ...any) error {
	return &RefusedError{Reason: fmt.Sprintf(format, args...), Unknown: true}
}
