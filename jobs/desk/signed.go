// This file checks the name and reason that each change must have.

package desk

import (
	"strings"

	"perennial/jobs/command"
	"perennial/ledger/fact"
)

// signature is the name of the operator who requests a change, and the reason.
type signature struct{ by, reason string }

func (x signature) check() error { return CheckSigned(x.by, x.reason) }

// CheckSigned returns a RefusedError if the name or reason is missing or invalid.
func CheckSigned(by, reason string) error {
	if strings.TrimSpace(by) == "" || strings.TrimSpace(reason) == "" {
		return command.Refuse("a change needs a name and a reason: say who asks for it, and why (--by, --reason)")
	}
	if fact.ClaimsUser(by) {
		return command.Refuse("%.40q says what the NATS server says: give the name alone, the NATS user is added", by)
	}
	return checkWords(by, reason)
}

// checkWords returns a RefusedError for text that is too long, or that a terminal or log
// cannot show on one line.
func checkWords(words ...string) error {
	for _, w := range words {
		if len(w) > maxWords {
			return command.Refuse("name, reason and order number may have %d bytes each", maxWords)
		}
		if why := fact.Unprintable(w); why != "" {
			return command.Refuse("%.40q %s: write name, reason and order number on one line", w, why)
		}
	}
	return nil
}
