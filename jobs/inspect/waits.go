// This file describes why a command waits.

package inspect

import (
	"fmt"
	"strings"
	"time"

	"perennial/jobs/decide"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
)

// waitsFor describes why a command waits: a pause, a hold or a time. It returns "" if the
// command is in progress or has ended.
func waitsFor(records []fact.Operation, pauses []tables.Pause) string {
	for _, o := range records {
		waiting := o.State == fact.StateWaiting
		if waiting || o.State == fact.StateAccepted {
			for _, p := range pauses {
				if p.Scope == decide.ScopeAccount || p.Scope == string(o.Kind) {
					return PauseText(p)
				}
			}
		}
		switch held := o.State == fact.StateHeld; {
		case waiting && o.NextAt != nil:
			return "it is sent again at " + o.NextAt.UTC().Format(time.RFC3339)
		case held && o.NextAt != nil:
			return fmt.Sprintf("it is on hold and looked at again at %s, or released by `perennial release %s`", o.NextAt.UTC().Format(time.RFC3339), o.CommandID)
		case held:
			return fmt.Sprintf("it is on hold until `perennial release %s`", o.CommandID)
		}
	}
	return ""
}

// PauseText describes a pause. If the pause has no end time, the text says how to end it.
func PauseText(p tables.Pause) string {
	text := PausedSince(p)
	if p.Until != nil || strings.Contains(p.Detail, "`perennial accounts resume`") {
		return text
	}
	return text + " (`perennial accounts resume` ends it)"
}

// PausedSince describes a pause: what is paused, since when, why, and until when.
func PausedSince(p tables.Pause) string {
	what := "the account is paused"
	if p.Scope != decide.ScopeAccount {
		what = p.Scope + " is paused"
	}
	text := fmt.Sprintf("%s since %s: %s", what, p.Since.UTC().Format(time.RFC3339), p.Detail)
	if p.Until != nil {
		text += ", until " + p.Until.UTC().Format(time.RFC3339)
	}
	return text
}
