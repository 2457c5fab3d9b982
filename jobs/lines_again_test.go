package jobs

import (
	"testing"

	"perennial/jobs/desk"
	"perennial/ledger/fact"
	"perennial/upstream/sandbox"
)

// Two lines whose ids differ by a trailing "a" are sent again, and one is refused. The command
// is partial, and a retry finds the refused line.
func TestTrap73LinesThatDifferByAnAStayApart(t *testing.T) {
	f := sandbox.DefaultFixture()
	for _, id := range []string{"hpx_1", "hpx_1a", "hpx_2"} {
		f.Proxies = append(f.Proxies, sandbox.FixtureProxy{ProxyID: id, AccountID: sandbox.DemoAccountID, Environment: "sandbox", OfferCode: "off_us_dallas", ExpiresIn: "24h"})
	}
	h := rigOf(t, f)
	h.start()
	h.fault(renew, "renewal", map[string]any{"unresolved": []string{"hpx_1", "hpx_1a"}})
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["hpx_1","hpx_1a","hpx_2"]}`)
	h.await("keep", fact.StateReview, fact.StatePartial)
	again := func(line string) {
		check(t, h.runner.Resolve(t.Context(), desk.Resolution{ID: "keep/0001", ProxyID: line, Charged: new(false), SendAgain: true, By: "ada", Reason: "support"}))
	}
	h.fault(renew, "code", map[string]any{"code": "insufficient_wallet_balance", "http_status": 402})
	again("hpx_1")
	h.until("refused", func() bool { return len(h.facts("command.rejected")) == 1 })
	again("hpx_1a")
	h.until("renewed", func() bool { return len(h.facts("renewal.completed")) == 1 })
	h.await("keep", fact.StatePartial)
	ends := h.facts("command.finished")
	if last := ends[len(ends)-1].(fact.CommandFinished); last.State != "partial" {
		t.Errorf("command.finished says %s", last.State)
	}
	n, err := h.runner.Retry(t.Context(), "keep", "ada", "there is money")
	check(t, err)
	if n != 1 {
		t.Errorf("%d operations were sent again", n)
	}
	h.await("keep", fact.StateCompleted)
}
