// Configuration errors.

package config

import (
	"fmt"
	"strings"
)

// Error means that the configuration, or a file that it refers to, cannot be used. Its text
// says what is wrong, where, and what to do.
type Error struct{ err error }

func (e *Error) Error() string { return e.err.Error() }

func (e *Error) Unwrap() error { return e.err }

func invalid(format string, args ...any) error { return &Error{fmt.Errorf(format, args...)} }

// NotConfiguredError means that a requested account is not configured.
type NotConfiguredError struct {
	account string
	have    []string
}

func (e *NotConfiguredError) Error() string {
	return fmt.Sprintf("account %q is not in the configuration, which has %s", e.account, strings.Join(e.have, ", "))
}
