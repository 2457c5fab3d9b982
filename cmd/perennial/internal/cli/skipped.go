// Proxies that a command left out, grouped by reason.

package cli

import (
	"fmt"

	"perennial/ledger/fact"
)

// skipped are proxies that were left out together, by reason.
type skipped []fact.SkippedFor

// reason is the first one, and how many there are beside it.
func (s skipped) reason() string {
	switch len(s) {
	case 0:
		return ""
	case 1:
		return s[0].Reason
	}
	return fmt.Sprintf("%s, and %d more", s[0].Reason, len(s)-1)
}
