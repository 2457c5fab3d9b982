// The verb `reveal`.

package daemon

import (
	"context"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs/command"
	"perennial/ledger"
	"perennial/ledger/fact"
)

// reveal appends the fact, and answers no credential: who asked reads them from the
// provider, behind this, so that none goes over NATS.
func (a *account) reveal(ctx context.Context, q verbs.RevealRequest) (verbs.Changed, error) {
	return changeOne(ctx, &q.By, q.Reason, func() error {
		return a.Ledger().Write(ctx, func(tx *ledger.Tx) error {
			if err := knowsProxy(tx, q.ProxyID); err != nil {
				return err
			}
			return tx.Append(fact.ProxyRevealed{ProxyID: q.ProxyID, By: q.By, Reason: q.Reason, User: fact.UserOf(ctx)})
		})
	})
}

// knowsProxy refuses a proxy that the ledger does not know.
func knowsProxy(tx *ledger.Tx, id string) error {
	known, err := tx.KnowsProxy(id)
	if err != nil || known {
		return err
	}
	return command.RefuseUnknown("proxy %.80q was never listed and no command named it: check the id (`perennial proxies list`)", id)
}
