// The service requests `reconcile` and `record`.

package daemon

import (
	"context"
	"errors"
	"time"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs/command"
	"perennial/jobs/desk"
	"perennial/jobs/reconcile"
	"perennial/ledger"
	"perennial/queue/service"
	"perennial/upstream"
)

func (a answers) reconcile(ctx context.Context, _ struct{}) (reconcile.Reconciliation, error) {
	ctx, cancel := context.WithTimeout(ctx, ReconcileTimeout)
	defer cancel()
	x, err := a.runner.Reconcile(ctx)
	for range reconcileAgain {
		if !errors.Is(err, upstream.CodeRateLimited) || a.runner.WaitOut(ctx, reconcileWaits) != nil {
			break
		}
		x, err = a.runner.Reconcile(ctx) // continues where the rate-limited request stopped the last pass
	}
	if _, refused := errors.AsType[*command.RefusedError](err); err != nil && !refused {
		err = &service.Error{Code: CodeUnreachable, Description: "the books could not be compared with the provider: " + err.Error()}
	}
	return x, err
}

const (
	// reconcileAgain limits how many times a reconciliation continues after a rate-limited
	// request. A reconciliation uses the whole rate, so it is the first to be rate limited.
	reconcileAgain = 10
	// reconcileWaits is the longest Retry-After for which a reconciliation waits.
	reconcileWaits = 30 * time.Second
)

// CodeUnreachable is the error code for a reconciliation that failed, usually because the
// provider did not reply.
const CodeUnreachable = "unreachable"

func (a answers) record(ctx context.Context, x desk.Recording) (verbs.Changed, error) {
	x.By = asked(ctx, x.By)
	return Record(ctx, a.Ledger(), x, a.runner.ReadOrder)
}

// Record books an operator's record of money, and returns a warning if the wallet is overdrawn.
// shown reads an order that the ledger does not know.
func Record(ctx context.Context, l *ledger.Ledger, x desk.Recording, shown desk.OrderReader) (done verbs.Changed, err error) {
	r, booked, err := desk.Record(ctx, l, x, shown)
	if err != nil {
		return done, err
	}
	if booked {
		done.Changed = 1
	}
	done.Record = &verbs.RecordAnswer{Seq: r.Seq, Kind: r.Movement, Cents: r.AmountCents}
	if done.Currency, err = l.Currency(ctx); err == nil {
		done.Warning, err = desk.Overdrawn(ctx, l, r.Movement)
	}
	return done, err
}

// ReconcileTimeout limits a reconciliation that an operator requested.
const ReconcileTimeout = 10 * time.Minute
