// RefusedError: a person's request that cannot be done.

package command

import "fmt"

// RefusedError is a person's request that cannot be done, and why.
type RefusedError struct{ Reason string }

// Error is the reason.
func (e *RefusedError) Error() string { return e.Reason }

// Refuse is a RefusedError with this reason.
func Refuse(format string, args ...any) error { return &RefusedError{fmt.Sprintf(format, args...)} }
