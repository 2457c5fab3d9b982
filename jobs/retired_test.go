package jobs

import (
	"testing"

	"perennial/ledger"
	"perennial/ledger/fact"
)

// A missing expiry must not decode as year 1, which would be due.
func TestTrap10WhatHasNoExpiryIsNeverDue(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.renew(`{"id":"sweep","proxy_ids":["px_forever","px_2"],"duration_days":30,"due_before":"2099-01-01T00:00:00Z"}`)
	h.await("sweep", fact.StateCompleted)
	skipped := h.facts("proxy.skipped")
	if len(skipped) != 1 {
		t.Fatalf("skipped %+v", skipped)
	}
	if f, _ := skipped[0].(fact.ProxySkipped); f.ProxyID != "px_forever" {
		t.Fatalf("skipped %+v", skipped)
	}
	h.settled(300, 0)
}

// A proxy is retired between the plan and the charge. An operator's own command still renews
// it.
func TestAProxyRetiredAfterPlanningIsNotPaidFor(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	check(t, h.ledger.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(fact.ProxyRetired{ProxyID: "px_1", By: "ada", Reason: "not needed"})
	}))
	h.renew(`{"id":"sweep","proxy_ids":["px_1","px_2"],"duration_days":30,"due_before":"2099-01-01T00:00:00Z"}`)
	h.await("sweep", fact.StateCompleted)
	skipped, ok := h.awaitFact("proxy.skipped").(fact.ProxySkipped)
	if !ok || skipped.ProxyID != "px_1" || skipped.Reason != "it was retired" {
		t.Fatalf("skipped %+v", skipped)
	}
	h.settled(300, 0)
	h.renew(`{"id":"by-hand","proxy_ids":["px_1"],"duration_days":30}`)
	h.await("by-hand", fact.StateCompleted)
	h.settled(600, 0)
}

// A reply with unresolved lines has renewed other proxies, so the known data of all of them is
// out of date.
func TestExpiriesAreForgottenBehindAReviewToo(t *testing.T) {
	h := idleRig(t)
	h.listed()
	review := fact.OperationReview{Settlement: &fact.Lines{Items: []fact.Line{{ProxyID: "px_1", State: fact.LineSucceeded}, {ProxyID: "px_2", State: fact.LineUnresolved}}}}
	check(t, h.ledger.Write(t.Context(), func(tx *ledger.Tx) error { return forgetExpiries(tx, []fact.Fact{review}) }))
	for id, known := range map[string]bool{"px_1": false, "px_2": false, "px_3": true} {
		p, err := h.ledger.Fleet.Proxy(t.Context(), id)
		check(t, err)
		if (p.SeenAt.UnixMicro() > 0) != known {
			t.Errorf("%s was seen at %s", id, p.SeenAt)
		}
	}
}
