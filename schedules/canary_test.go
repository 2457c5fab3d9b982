package schedules

import (
	"testing"
	"time"

	"perennial/ledger"
	"perennial/ledger/fact"
)

// Each further canary would be a renewal that no budget or approval limits.
func TestTrap23OneCanaryOfAKindIsUnderWay(t *testing.T) {
	s := keepalive()
	s.DailyBudgetCents, s.ApproveOverCents = 300, 300
	h := newRig(t, map[string]string{"px_1": "24h", "px_2": "25h", "px_3": "26h", "px_far": "100h"}, s)
	sweep := func(what string, proxies ...string) {
		t.Helper()
		h.watch.add(time.Second)
		plan, err := h.RunNow(t.Context(), "keepalive", "ann", "due", nil)
		check(t, err)
		want(t, what, ids(plan), proxies)
	}
	renewal(t, h.Ledger, 1, "px_far", "claimed", 0, noon) // requested by an operator; the proxy is not due
	check(t, h.lister.WaitPass(t.Context()))
	sweep("while a person renews one of the kind")
	check(t, h.Ledger.Write(t.Context(), func(tx *ledger.Tx) error {
		ref := fact.Ref{CommandID: "earlier-px_far-1", OperationID: "earlier-px_far-1/0001"}
		return tx.Append(fact.CommandCancelled{Ref: ref, By: "ada", Reason: "not needed"})
	}))
	sweep("the canary", "px_1")
	renewal(t, h.Ledger, 1, "px_1", "claimed", 0, noon.Add(24*time.Hour)) // no reply yet
	sweep("while the canary is in progress")
}
