package jobs

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"perennial/jobs/inspect"
	"perennial/ledger/fact"
)

func someIDs(prefix string, n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprintf("%s_%d", prefix, i))
	}
	return ids
}

func renewalOfAll(id string, ids []string) string {
	list := strings.ReplaceAll(fmt.Sprintf("%q", ids), `" "`, `","`)
	return fmt.Sprintf(`{"id":%q,"duration_days":30,"proxy_ids":%s}`, id, list)
}

// One fact contains all skipped proxies, grouped by reason.
func TestWhatACommandLeavesOutIsOneFact(t *testing.T) {
	h := idleRig(t)
	offer := h.intake()
	held := someIDs("px", 2000) // by twenty operations
	offerAll(t, offer, renewalOfAll("a", held), renewalOfAll("b", append(slices.Clone(held), "px_free")))
	skipped := h.facts("proxy.skipped")
	if len(skipped) != 1 {
		t.Fatalf("%d facts", len(skipped))
	}
	f, _ := skipped[0].(fact.ProxySkipped)
	if len(f.Proxies()) != len(held) || len(f.Skipped) != 17 || f.ProxyID != "" || f.CommandID != "b" {
		t.Errorf("%d proxies for %d reasons", len(f.Proxies()), len(f.Skipped))
	}
	if x := f.Skipped[0]; x.Reason != "operation a/0001 holds it" || len(x.ProxyIDs) != 100 {
		t.Errorf("%+v", x)
	}
	if x := f.Skipped[16]; !strings.Contains(x.Reason, "other operations") || len(x.ProxyIDs) != 400 {
		t.Errorf("%+v", x)
	}
	s, err := inspect.Status(t.Context(), h.ledger, "b")
	check(t, err)
	if len(s.LeftOut) != len(held) || s.LeftOut[1999].ProxyID != "px_1999" || s.LeftOut[0].Reason != "operation a/0001 holds it" {
		t.Errorf("%d left out", len(s.LeftOut))
	}
}

// The fact has the expiry of each proxy.
func TestWhatIsNotDueJustBeforePayingIsOneFact(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.renew(`{"id":"sweep","duration_days":30,"proxy_ids":["px_1","px_2","px_3","px_forever"],"due_before":"2020-01-01T00:00:00Z"}`)
	h.await("sweep", fact.StateRejected)
	skipped := h.facts("proxy.skipped")
	if len(skipped) != 1 {
		t.Fatalf("%d facts of one precheck", len(skipped))
	}
	f, _ := skipped[0].(fact.ProxySkipped)
	if len(f.Skipped) != 2 || f.OperationID != "sweep/0001" || len(f.Skipped[0].ProxyIDs) != 3 || len(f.Skipped[0].ExpiresAt) != 3 || f.Skipped[1].ExpiresAt != nil {
		t.Errorf("%+v", f)
	}
	h.settled(0, 0)
}
