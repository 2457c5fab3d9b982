// This file finds the proxies that schedules have given up and that an operator answers for.

package desk

import (
	"context"
	"slices"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
)

// sweepReviews returns the proxies that schedules have given up and that x answers for: the
// proxy in x, or all of them if the operation needs no other review.
func sweepReviews(ctx context.Context, l *ledger.Ledger, o fact.Operation, x Resolution) ([]string, error) {
	ids, err := l.Operations.SweepReviews(ctx, o.ID)
	switch {
	case err != nil || len(ids) == 0:
		return nil, err
	case x.ProxyID != "":
		return slices.DeleteFunc(ids, func(id string) bool { return id != x.ProxyID }), nil
	case !o.State.Ended():
		return nil, nil // the operation's own review is answered first
	}
	lines, err := l.Operations.Lines(ctx, o.ID)
	if err != nil || slices.ContainsFunc(lines, func(x tables.RenewalLine) bool { return x.State == fact.LineUnresolved }) {
		return nil, err
	}
	return ids, nil
}
