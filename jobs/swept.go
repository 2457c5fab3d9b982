package jobs

import (
	"context"
	"slices"

	"perennial/ledger"
)

// sweepReviews lists the proxies of the operation that sweeps leave to a person
// and that x answers for: one line, or all of them where nothing else of the
// operation waits.
func sweepReviews(ctx context.Context, l *ledger.Ledger, o ledger.Operation, x Resolution) ([]string, error) {
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
	if err != nil || slices.ContainsFunc(lines, func(x ledger.RenewalLine) bool { return x.State == ledger.LineUnresolved }) {
		return nil, err
	}
	return ids, nil
}

// answerSweeps lets sweeps try the proxies again, or leave them alone. Every
// renewal of them has ended and is booked, so there is no amount to say.
func (r *Runner) answerSweeps(ctx context.Context, x Resolution, ids []string) error {
	if *x.Charged {
		return refuse("every renewal of %s has ended and is booked: say --not-charged to let it expire, or --not-charged --send-again to have sweeps try again", ids[0])
	}
	return r.Ledger.Write(ctx, func(tx *ledger.Tx) error {
		waiting, err := tx.SweepReviews(x.ID)
		if err != nil {
			return err
		}
		for _, id := range ids {
			if !slices.Contains(waiting, id) {
				return refuse("line %s of %s does not wait for a person", id, x.ID)
			}
			var f ledger.Fact = ledger.ProxyRetired{ProxyID: id, By: x.By, Reason: x.Reason, User: ledger.UserOf(ctx)}
			if x.SendAgain {
				f = ledger.ProxyReinstated{ProxyID: id, By: x.By, Reason: x.Reason, User: ledger.UserOf(ctx)}
			}
			if err := tx.Append(f); err != nil {
				return err
			}
		}
		return nil
	})
}
