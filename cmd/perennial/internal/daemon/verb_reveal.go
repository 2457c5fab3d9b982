// The verb `reveal`.

package daemon

import (
	"context"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs"
	"perennial/jobs/command"
	"perennial/ledger"
	"perennial/ledger/fact"
)

// reveal appends the fact, and answers no credential: who asked reads them from the
// provider, behind this, so that none goes over NATS.
func (a *account) reveal(ctx context.Context, q verbs.RevealRequest) (verbs.Changed, error) {
	q.By = asked(ctx, q.By)
	if err := jobs.CheckSigned(q.By, q.Reason); err != nil {
		return verbs.Changed{}, err
	}
	err := a.Ledger().Write(ctx, func(tx *ledger.Tx) error {
		known, err := tx.KnowsProxy(q.ProxyID)
		if err != nil {
			return err
		}
		if !known {
			return refuseUnknownProxy(q.ProxyID)
		}
		return tx.Append(fact.ProxyRevealed{ProxyID: q.ProxyID, By: q.By, Reason: q.Reason, User: fact.UserOf(ctx)})
	})
	if err != nil {
		return verbs.Changed{}, err
	}
	return verbs.Changed{Changed: 1}, nil
}

func refuseUnknownProxy(id string) error {
	return command.RefuseUnknown("proxy %.80q was never listed and no command named it: check the id (`perennial proxies list`)", id)
}
