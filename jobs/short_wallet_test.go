package jobs

import (
	"slices"
	"testing"

	"perennial/jobs/inspect"
	"perennial/ledger/fact"
	"perennial/upstream/sandbox"
)

// A chunk that the wallet cannot pay is halved until it can. After a top-up, a retry renews
// all the rest.
func TestAWalletForSomeRenewsWhatExpiresFirst(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cents    int64
		renewed  []string
		requests int
		state    fact.State
	}{
		{900, []string{"hx_4", "hx_5"}, 2, fact.StatePartial},
		{500, []string{"hx_5"}, 3, fact.StatePartial},
		{200, nil, 3, fact.StateRejected},
	} {
		f := sandbox.DefaultFixture()
		f.Accounts[0].Wallet.SandboxCents = c.cents
		f.Proxies = nil
		for n, in := range []string{"100h", "90h", "80h", "70h", "60h"} {
			f.Proxies = append(f.Proxies, sandbox.FixtureProxy{ProxyID: "hx_" + string(rune('1'+n)), AccountID: sandbox.DemoAccountID, Environment: "sandbox", OfferCode: "off_us_dallas", ExpiresIn: in})
		}
		h := rigOf(t, f)
		h.start()
		h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["hx_1","hx_2","hx_3","hx_4","hx_5"]}`)
		s := h.await("keep", c.state)
		if renewed := h.renewed(); !slices.Equal(renewed, c.renewed) {
			t.Errorf("of %d cents %v were renewed: %+v", c.cents, renewed, s)
		}
		if n := len(h.facts("operation.sending")); n != c.requests {
			t.Errorf("of %d cents: %d requests", c.cents, n)
		}
		ended, _ := h.awaitFact("command.finished").(fact.CommandFinished)
		if len(ended.Lines) != 5 {
			t.Errorf("of %d cents: %s, with lines %+v", c.cents, ended.State, ended.Lines)
		}
		lines, err := inspect.Status(t.Context(), h.ledger, "keep")
		check(t, err)
		if claims, err := h.ledger.Operations.Claimed(t.Context()); err != nil || len(claims) != 0 {
			t.Errorf("claimed: %v, %v: %+v", claims, err, lines)
		}
		_, err = h.runner.Retry(t.Context(), "keep", "ada", "not yet")
		check(t, err)
		h.await("keep", c.state)
		h.control("/wallet", map[string]any{"account_id": sandbox.DemoAccountID, "environment": "sandbox", "add_cents": 10_000})
		_, err = h.runner.Retry(t.Context(), "keep", "ada", "the wallet is filled")
		check(t, err)
		if s := h.await("keep", fact.StateCompleted); len(h.renewed()) != 5 {
			t.Errorf("of %d cents, and more later, %v were renewed: %+v", c.cents, h.renewed(), s)
		}
	}
}

func (h *rig) renewed() (ids []string) {
	for _, x := range h.facts("renewal.completed") {
		f, _ := x.(fact.RenewalSettled)
		for _, line := range f.Items {
			if line.State == fact.LineSucceeded {
				ids = append(ids, line.ProxyID)
			}
		}
	}
	slices.Sort(ids)
	return ids
}
