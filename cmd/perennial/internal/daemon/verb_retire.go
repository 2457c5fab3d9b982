// The verb `retire`.

package daemon

import (
	"context"
	"fmt"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs/command"
	"perennial/ledger"
	"perennial/ledger/fact"
)

// retire changes all of the proxies or none. A proxy that is
// retired already gets no second fact.
func (a *account) retire(ctx context.Context, q verbs.RetireRequest) (verbs.Changed, error) {
	var changed verbs.Changed
	if len(q.ProxyIDs) == 0 || len(q.ProxyIDs) > verbs.MaxRetired {
		return changed, &command.RefusedError{Reason: fmt.Sprintf("%d proxies: name 1 to %d", len(q.ProxyIDs), verbs.MaxRetired)}
	}
	if err := signed(ctx, &q.By, q.Reason); err != nil {
		return changed, err
	}
	err := a.Ledger().Write(ctx, func(tx *ledger.Tx) error {
		changed.Changed = 0 // Write may run this twice
		for _, id := range q.ProxyIDs {
			done, err := retireOne(ctx, tx, q, id)
			if err != nil {
				return err
			}
			if done {
				changed.Changed++
			}
		}
		return nil
	})
	return changed, err
}

func retireOne(ctx context.Context, tx *ledger.Tx, q verbs.RetireRequest, id string) (changed bool, err error) {
	if err := knowsProxy(tx, id); err != nil {
		return false, err
	}
	retired, err := tx.Retired(id)
	if err != nil || retired != q.Undo {
		return false, err
	}
	if q.Undo {
		return true, tx.Append(fact.ProxyReinstated{ProxyID: id, By: q.By, Reason: q.Reason, User: fact.UserOf(ctx)})
	}
	return true, tx.Append(fact.ProxyRetired{ProxyID: id, By: q.By, Reason: q.Reason, User: fact.UserOf(ctx)})
}
