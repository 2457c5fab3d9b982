// Which proxies that sweeps have given up a person's answer is about.

package desk

import (
	"context"
	"slices"

	"perennial/ledger"
	"perennial/ledger/fact"
)

// sweepReviews lists the proxies of the operation that sweeps leave to a person
// and that x answers for: one line, or all of them where nothing else of the
// operation waits.
func sweepReviews(ctx context.Context, l *ledger.Ledger, o fact.Operation, x Resolution) ([]string, error) {
	ids, err := l.SweepReviews(ctx, o.ID)
	switch {
	case err != nil || len(ids) == 0:
		return nil, err
	case x.ProxyID != "":
		return slices.DeleteFunc(ids, func(id string) bool { return id != x.ProxyID }), nil
	case !o.State.Ended():
		return nil, nil // the money first
	}
	lines, err := l.Lines(ctx, o.ID)
	if err != nil || slices.ContainsFunc(lines, func(x ledger.RenewalLine) bool { return x.State == fact.LineUnresolved }) {
		return nil, err
	}
	return ids, nil
}
