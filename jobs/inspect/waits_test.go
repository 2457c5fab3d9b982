package inspect

import (
	"strings"
	"testing"

	"perennial/jobs/decide"
	"perennial/ledger/tables"
)

// The detail of a pause after a restore already names the command.
func TestAPauseSaysOnceWhatEndsIt(t *testing.T) {
	t.Parallel()
	for _, detail := range []string{"by ann: a look", "the wallet differs. Look at it, then `perennial accounts resume`"} {
		text := PauseText(tables.Pause{Scope: decide.ScopeAccount, Detail: detail})
		if strings.Count(text, "perennial accounts resume") != 1 {
			t.Errorf("%s", text)
		}
	}
}
