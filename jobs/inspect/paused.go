package inspect

import (
	"context"

	"perennial/jobs/decide"
	"perennial/ledger"
	"perennial/ledger/fact"
)

// PausedRenewals returns why the account sends no renewals, or "" if it sends them.
func PausedRenewals(ctx context.Context, l *ledger.Ledger) (string, error) {
	pauses, err := l.Operations.Pauses(ctx)
	for _, p := range pauses {
		switch p.Scope {
		case decide.ScopeAccount:
			return "the account is paused: " + p.Detail, err
		case string(fact.KindRenewal):
			return "renewals are paused: " + p.Detail, err
		}
	}
	return "", err
}
