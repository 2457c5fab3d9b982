package schedules

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"perennial/ledger"
	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/upstream"
)

// An executed plan must not look as if it needs approval.
func TestAListSaysThatAPlanWasApproved(t *testing.T) {
	s := keepalive()
	s.ApproveOverCents = 1
	h := newRig(t, soon(), s)
	h.paid(t, "px_1", 300)
	plan := h.sweep(t)
	listed := func() Status {
		all, err := h.List(t.Context())
		check(t, err)
		return all[0]
	}
	if why := listed().Why; !strings.Contains(why, "schedules approve "+plan.Hash) {
		t.Fatalf("before: %s", why)
	}
	check(t, h.Approve(t.Context(), plan.Hash, "ada", "checked"))
	if now := listed(); strings.Contains(now.Why, "schedules approve") || !strings.Contains(now.Why, "approved") || now.Plan != "" {
		t.Fatalf("afterwards: %+v", now)
	}
}

// A schedule that runs once a year must not make the whole list fail.
func TestAScheduleWhoseLastPlanIsArchivedElsewhereIsListed(t *testing.T) {
	h := newRig(t, soon(), keepalive())
	path := filepath.Join(t.TempDir(), "archived.ledger.db")
	h.config.Ledger = openLedger(t, path, h.watch.Now)
	h.restart(t)
	h.paid(t, "px_1", 300)
	plan := h.sweep(t)
	renewal(t, h.Ledger, 1, "px_2", "succeeded", 300, noon)
	seq, hash, err := h.Ledger.Head(t.Context())
	check(t, err)
	check(t, h.Ledger.Close())
	later := noon.Add(30 * fact.Day)
	archived, err := ledger.Archive{
		Path: path, Before: later.Add(-10 * fact.Day), Clock: func() time.Time { return later }, Published: chain.Head{Seq: seq, Hash: hash}, Keep: 1,
	}.Run(t.Context())
	check(t, err)
	check(t, os.Remove(archived.File))
	h.config.Ledger = openLedger(t, path, h.watch.Now)
	h.restart(t)
	all, err := h.List(t.Context())
	check(t, err)
	if one := all[0]; one.State != stateFinished || !strings.Contains(one.Why, filepath.Base(archived.File)) || plan.State != stateFinished {
		t.Fatalf("%+v", one)
	}
}

// After a correction, an operator need not wait for the next listing.
func TestARequestedPlanReadsWhatWasNotRenewed(t *testing.T) {
	h := newRig(t, soon(), keepalive())
	h.paid(t, "px_2", 300)
	check(t, h.lister.WaitPass(t.Context()))
	check(t, h.Ledger.Write(t.Context(), func(tx *ledger.Tx) error { return tx.Stale("px_1") }))
	due := func() int {
		plan, err := h.PlanNow(t.Context(), "keepalive")
		check(t, err)
		return len(plan.Included)
	}
	before := due()
	h.config.Proxy = func(_ context.Context, id string) (upstream.Proxy, error) {
		p, err := h.Ledger.Fleet.Proxy(t.Context(), id)
		return upstream.Proxy{ProxyID: id, ExpiresAt: p.ExpiresAt, Status: "active"}, err
	}
	h.restart(t)
	want(t, "planned once it is read", due(), before+1)
}
