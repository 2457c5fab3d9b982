package jobs

import (
	"testing"
	"time"

	"perennial/jobs/desk"
	"perennial/ledger"
	"perennial/ledger/fact"
)

// The review has the two answers of a schedule's review, although the renewal was charged.
func TestARenewalInVainIsAnsweredLikeOtherReviewsOfSweeps(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	for n, again := range []bool{true, false} {
		id := []string{"px_1", "px_2"}[n]
		h.renew(`{"id":"keep-` + id + `","duration_days":30,"proxy_ids":["` + id + `"]}`)
		o := h.await("keep-"+id, fact.StateCompleted).Operations[0]
		check(t, h.ledger.Write(t.Context(), func(tx *ledger.Tx) error {
			return tx.Append(fact.ProxyReview{Ref: fact.Ref{CommandID: o.CommandID, OperationID: o.OperationID}, ProxyID: id, Schedule: "keep", ExpiresAt: time.Now().AddDate(0, 3, 0), Reason: "in vain"})
		}))
		if e := h.evidence(o.OperationID); len(e.Answers) != 2 || len(e.Notes) == 0 {
			t.Errorf("%+v", e)
		}
		check(t, h.runner.Resolve(t.Context(), desk.Resolution{ID: o.OperationID, ProxyID: id, Charged: new(false), SendAgain: again, By: "ada", Reason: "looked"}))
	}
	if reinstated, retired := len(h.facts("proxy.reinstated")), len(h.facts("proxy.retired")); reinstated != 1 || retired != 1 {
		t.Errorf("%d reinstated, %d retired", reinstated, retired)
	}
}
