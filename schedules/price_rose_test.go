package schedules

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"perennial/jobs/command"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/schedules/plans"
)

// ceilings returns the cost limits of a plan's commands, in order; 0 if a command has none.
func ceilings(t testing.TB, p plans.Plan) (all []int64) {
	t.Helper()
	for _, raw := range p.Commands {
		var c command.RenewalCommand
		check(t, json.Unmarshal(raw, &c))
		if c.MaxTotalCents == nil {
			c.MaxTotalCents = new(int64)
		}
		all = append(all, *c.MaxTotalCents)
	}
	return all
}

// The newest price paid for a proxy of the kind counts. The commands cost no more than was
// planned, and the proxies that the cost limit stopped are planned again at the new price.
func TestASweepLearnsAPriceThatRose(t *testing.T) {
	t.Parallel()
	s := keepalive()
	s.BudgetCents = 7000
	h := newRig(t, map[string]string{"px_1": "24h", "px_2": "25h", "px_3": "26h", "px_4": "600h", "px_de_1": "27h"}, s)
	for _, id := range []string{"px_1", "px_2", "px_3"} {
		h.paid(t, id, 300)
	}
	check(t, h.lister.WaitPass(t.Context()))
	plan := func() plans.Plan {
		t.Helper()
		p, err := h.PlanNow(t.Context(), "keepalive")
		check(t, err)
		return p
	}
	old := plan()
	want(t, "at the old price, and a canary", ceilings(t, old), []int64{900, 0})

	h.paid(t, "px_4", 3000)
	check(t, h.lister.WaitPass(t.Context()))
	dearer := plan()
	want(t, "at the new price", dearer.EstimateCents, fact.Known(6000))
	want(t, "what fits into the budget", ids(dearer), []string{"px_1", "px_2", "px_de_1"})
	want(t, "from", dearer.Included[0].PriceFrom, plans.PriceKind)
	want(t, "ceilings", ceilings(t, dearer), []int64{6000, 0})

	for n := range plans.MaxEndings {
		name := fmt.Sprintf("sweep-keepalive-%d", n)
		ref := fact.Ref{CommandID: name, OperationID: name + "/0001"}
		check(t, h.Ledger.Write(t.Context(), func(tx *ledger.Tx) error {
			return tx.Append(
				fact.CommandAccepted{Ref: fact.Ref{CommandID: name}, Kind: fact.KindRenewal, Content: json.RawMessage(`{}`), DurationDays: 30,
					Operations: []fact.Planned{{OperationID: ref.OperationID, Chunk: "0001", Generation: 1, Key: "key-" + name, ProxyIDs: []string{"px_1"}}}},
				fact.CommandRejected{Ref: ref, Code: fact.CodeCeiling, Reason: "it would bring the command over it"})
		}))
	}
	want(t, "just refused", why(plan(), "px_1"), plans.ReasonBackoff)
	h.watch.add(plans.Backoff + time.Second)
	check(t, h.lister.WaitPass(t.Context()))
	want(t, "however often", ids(plan()), []string{"px_1", "px_2", "px_de_1"})
}
