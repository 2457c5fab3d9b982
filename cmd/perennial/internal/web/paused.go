// Descriptions of pauses for people.

package web

import (
	"strings"
	"time"

	"perennial/jobs/decide"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
)

// pauseText describes a pause: who paused, since when, until when, and why. The text says
// what is paused only if it is a single kind of operation. The page shows the account.
func pauseText(p tables.Pause, now time.Time) string {
	what := "paused"
	if p.Scope != decide.ScopeAccount {
		what = field(p.Scope) + "s are paused"
	}
	why := p.Detail
	if by, reason, signed := strings.Cut(strings.TrimPrefix(p.Detail, "by "), ": "); signed && p.Cause == decide.CausePerson && strings.HasPrefix(p.Detail, "by ") {
		what, why = what+" by "+by, reason
	}
	text := what + " since " + clockText(p.Since, now)
	if p.Until != nil {
		text += " until " + clockText(*p.Until, now)
	}
	if why != "" {
		text += ": " + why
	}
	return text
}

// clockText formats a time in UTC. It omits the date if the date is today.
func clockText(at, now time.Time) string {
	if at, now = at.UTC(), now.UTC(); at.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return at.Format("15:04 UTC")
	}
	return at.Format("2006-01-02 15:04 UTC")
}

// pausesText describes all pauses. It returns "" if there are none.
func pausesText(all []tables.Pause, now time.Time) string {
	texts := make([]string, 0, len(all))
	for _, p := range all {
		texts = append(texts, pauseText(p, now))
	}
	return strings.Join(texts, "; ")
}

// sendsNoRenewals reports whether renewals are paused.
func sendsNoRenewals(all []tables.Pause) bool {
	for _, p := range all {
		if p.Scope == decide.ScopeAccount || p.Scope == string(fact.KindRenewal) {
			return true
		}
	}
	return false
}
