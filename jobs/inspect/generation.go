// This file plans operations that are sent again under a new key, for the answers that the
// evidence lists and for the requests of operators.

package inspect

import (
	"context"
	"slices"

	"perennial/jobs/command"
	"perennial/ledger"
	"perennial/ledger/fact"
)

// Generation is an operation that is planned again under a new key.
type Generation struct {
	Planned fact.Planned
	Days    int64
}

// NextGeneration plans an operation again under a new key. A renewal is planned for its
// lines in the given states; if there are none, the error is a RefusedError.
func NextGeneration(ctx context.Context, l *ledger.Ledger, b fact.Binding, o fact.Operation, states ...fact.LineState) (Generation, error) {
	accepted, err := l.Operations.Acceptance(ctx, o.CommandID)
	if err != nil {
		return Generation{}, err
	}
	var ids []string
	if o.Kind.OfProxies() {
		lines, err := l.Operations.Lines(ctx, o.ID)
		if err != nil {
			return Generation{}, err
		}
		for _, x := range lines {
			if slices.Contains(states, x.State) {
				ids = append(ids, x.ProxyID)
			}
		}
		if len(ids) == 0 {
			return Generation{}, command.Refuse("%s has no proxy left to renew", o.ID)
		}
	}
	return Generation{
		Planned: command.Plan(b, o.Kind, o.CommandID, o.Chunk, o.Generation+1, ids), Days: accepted.DurationDays,
	}, nil
}

// PlanLine plans one proxy of an operation again, as an operation of its own.
func PlanLine(b fact.Binding, o fact.Operation, proxyID string) fact.Planned {
	return command.Plan(b, o.Kind, o.CommandID, fact.LineChunk(o.Chunk, proxyID), o.Generation+1, []string{proxyID})
}

// MayGoAgain reports whether an operation may be sent again under a new key. An order with
// a number was charged, so it may be sent again only after it was fully refunded.
func MayGoAgain(o fact.Operation) bool {
	return o.OrderNo == "" || o.ChargedCents > 0 && o.RefundedCents == o.ChargedCents
}
