package schedules

import (
	"testing"
	"time"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/schedules/plans"
)

// failing records renewals that ended without renewing px_1, one per hour.
func (h *rig) failing(t *testing.T, from, to int) {
	t.Helper()
	px, err := h.Ledger.Fleet.Proxy(t.Context(), "px_1")
	check(t, err)
	for n := from; n <= to; n++ {
		h.watch.add(time.Hour)
		renewal(t, h.Ledger, n, "px_1", "failed", 300, *px.ExpiresAt)
	}
	h.watch.add(5 * time.Hour)
}

func (h *rig) sweep(t *testing.T) plans.Plan {
	t.Helper()
	check(t, h.lister.WaitPass(t.Context()))
	plan, err := h.RunNow(t.Context(), "keepalive", "ann", "due", nil)
	check(t, err)
	h.watch.add(time.Second)
	return plan
}

func (h *rig) append(t *testing.T, f fact.Fact) {
	t.Helper()
	h.watch.add(time.Second)
	check(t, h.Ledger.Write(t.Context(), func(tx *ledger.Tx) error { return tx.Append(f) }))
}

// One review is opened. The operator decides whether runs try again, and new attempts have new
// command ids.
func TestTheFifthEndingWithoutARenewalGoesToReview(t *testing.T) {
	h := newRig(t, map[string]string{"px_1": "70h", "px_2": "300h"}, keepalive())
	h.paid(t, "px_2", 300)
	asked := map[string]bool{commandIDs(t, h.sweep(t))[0]: true}
	h.failing(t, 1, 5)
	before, _, err := h.Ledger.Head(t.Context())
	check(t, err)
	for range 2 {
		want(t, "reason", why(h.sweep(t), "px_1"), plans.ReasonPerson)
	}
	want(t, "facts", h.facts(t, before), []string{"sweep.planned", "sweep.finished", "proxy.review", "sweep.planned", "sweep.finished"})
	reviews, err := h.Ledger.Operations.Reviews(t.Context())
	check(t, err)
	if len(reviews) != 1 || reviews[0].ProxyID != "px_1" || reviews[0].OperationID != "earlier-px_1-5/0001" || !reviews[0].Ended {
		t.Fatalf("in review: %+v", reviews)
	}

	h.append(t, fact.ProxyReinstated{ProxyID: "px_1", By: "ada", Reason: "the provider has mended it"})
	again := h.sweep(t)
	want(t, "after the answer", ids(again), []string{"px_1"})
	if id := commandIDs(t, again)[0]; asked[id] {
		t.Errorf("command %s was published before: it would be absorbed", id)
	}
	want(t, "in review", h.inReview(t), int64(0))

	h.failing(t, 6, 9)
	want(t, "four more", ids(h.sweep(t)), []string{"px_1"})
	h.failing(t, 10, 10)
	want(t, "five more", why(h.sweep(t), "px_1"), plans.ReasonPerson)
	want(t, "in review", h.inReview(t), int64(1))
	h.append(t, fact.ProxyRetired{ProxyID: "px_1", By: "ada", Reason: "not worth it"})
	want(t, "in review", h.inReview(t), int64(0))
	_, err = h.Ledger.Verify(t.Context())
	check(t, err)
}

// A proxy that expired long ago is still expired after a renewal that extends its old expiry. An
// operator decides whether it is renewed again.
func TestAProxyThatARenewalDoesNotBringBackIsPaidForOnce(t *testing.T) {
	h := newRig(t, map[string]string{"px_1": "-2400h", "px_2": "300h"}, keepalive())
	h.paid(t, "px_2", 300)
	want(t, "expired, not renewed yet", ids(h.sweep(t)), []string{"px_1"})
	renewedTo := func(n int) {
		px, err := h.Ledger.Fleet.Proxy(t.Context(), "px_1")
		check(t, err)
		renewal(t, h.Ledger, n, "px_1", "succeeded", 300, *px.ExpiresAt)
		h.watch.add(2 * time.Second)
		later := px.ExpiresAt.Add(30 * fact.Day)
		px.ExpiresAt, px.SeenAt = &later, h.watch.Now()
		check(t, h.Ledger.Write(t.Context(), func(tx *ledger.Tx) error { return tx.Observe(0, px) }))
	}
	plan := func() plans.Plan {
		p, err := h.RunNow(t.Context(), "keepalive", "ann", "due", nil)
		check(t, err)
		h.watch.add(time.Second)
		return p
	}
	renewedTo(1)
	for range 2 {
		want(t, "expired still", why(plan(), "px_1"), plans.ReasonInVain)
	}
	reviews, err := h.Ledger.Operations.Reviews(t.Context())
	check(t, err)
	if len(reviews) != 1 || reviews[0].ProxyID != "px_1" || reviews[0].OperationID != "earlier-px_1-1/0001" {
		t.Fatalf("in review: %+v", reviews)
	}
	h.append(t, fact.ProxyReinstated{ProxyID: "px_1", By: "ada", Reason: "it is worth it"})
	want(t, "after the answer", ids(plan()), []string{"px_1"})
	renewedTo(2)
	want(t, "once more", why(plan(), "px_1"), plans.ReasonInVain)
	want(t, "in review", h.inReview(t), int64(1))
	h.watch.add(31 * fact.Day)
	check(t, h.lister.WaitPass(t.Context()))
	want(t, "what was paid for has passed", why(plan(), "px_1") == plans.ReasonInVain, false)
}

// The proxy is renewed by an operator's command or at the provider's site.
func TestAProxyRenewedAfterAllLeavesReview(t *testing.T) {
	for name, renewed := range map[string]func(h *rig){
		"by a command": func(h *rig) { renewal(t, h.Ledger, 6, "px_1", "succeeded", 300, noon.Add(70*time.Hour)) },
		"by hand": func(h *rig) {
			px, err := h.Ledger.Fleet.Proxy(t.Context(), "px_1")
			check(t, err)
			later := px.ExpiresAt.Add(30 * fact.Day)
			px.ExpiresAt = &later
			check(t, h.Ledger.Write(t.Context(), func(tx *ledger.Tx) error { return tx.Observe(1<<60, px) }))
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newRig(t, map[string]string{"px_1": "70h"}, keepalive())
			check(t, h.lister.WaitPass(t.Context()))
			h.failing(t, 1, 5)
			h.sweep(t)
			want(t, "in review", h.inReview(t), int64(1))
			renewed(h)
			want(t, "in review", h.inReview(t), int64(0))
		})
	}
}

func (h *rig) inReview(t *testing.T) int64 {
	t.Helper()
	n, err := h.Ledger.Operations.CountReviews(t.Context())
	check(t, err)
	return n
}

// The proxy is due by the provider's clock. By our slower clock, its failed renewal ended before
// the proxy was due.
func TestAnEndingCountsWhereOurClockIsBehindTheProviders(t *testing.T) {
	h := newRig(t, map[string]string{"px_1": "72h2m"}, keepalive())
	h.provided = 4 * time.Minute
	first := h.sweep(t)
	want(t, "due on the provider's clock", ids(first), []string{"px_1"})
	renewal(t, h.Ledger, 1, "px_1", "failed", 300, noon.Add(72*time.Hour+2*time.Minute))
	h.watch.add(time.Second)
	want(t, "at once", why(h.sweep(t), "px_1"), plans.ReasonBackoff)
	h.watch.add(31 * time.Minute)
	h.anotherCommand(t, first)
}

func TestAnEndingCountsWhenTheWindowWasMadeShorter(t *testing.T) {
	h := newRig(t, map[string]string{"px_1": "60h"}, keepalive())
	first := h.sweep(t)
	renewal(t, h.Ledger, 1, "px_1", "failed", 300, noon.Add(60*time.Hour))
	h.config.Schedules[0].RenewBefore = 48 * time.Hour
	h.restart(t)
	h.watch.add(20 * time.Hour)
	h.anotherCommand(t, first)
}

// anotherCommand makes a run and checks that it plans px_1 under a new command id. With the old
// id, the command would be a duplicate.
func (h *rig) anotherCommand(t *testing.T, before plans.Plan) (id string) {
	t.Helper()
	again := h.sweep(t)
	want(t, "due again", ids(again), []string{"px_1"})
	if id = commandIDs(t, again)[0]; id == commandIDs(t, before)[0] {
		t.Fatal("the sweep plans the command that has ended: nothing renews px_1")
	}
	return id
}

// All proxies of the command were reserved by another operation, so no line records its end.
func TestACommandThatEndedWithoutTraceIsNotReplanned(t *testing.T) {
	h := newRig(t, map[string]string{"px_1": "60h"}, keepalive())
	first := h.sweep(t)
	accepted := fact.CommandAccepted{Ref: fact.Ref{CommandID: commandIDs(t, first)[0]}, Kind: fact.KindRenewal, Content: []byte(`{}`), DurationDays: 30}
	h.append(t, accepted)
	second := h.sweep(t)
	want(t, "while the second is on its way", why(h.sweep(t), "px_1"), plans.ReasonOnItsWay)
	accepted.CommandID = commandIDs(t, second)[0]
	h.append(t, accepted)
	if third := h.anotherCommand(t, second); third == commandIDs(t, first)[0] {
		t.Fatal("the sweep plans the first command again")
	}
}

// A command was refused because another command was renewing the proxy. Under its id it would
// remain a duplicate forever, however the other renewal ends.
func TestACommandThatWasRefusedIsNotPlannedAgain(t *testing.T) {
	h := newRig(t, map[string]string{"px_1": "60h"}, keepalive())
	first := h.sweep(t)
	h.append(t, fact.CommandRejected{Ref: fact.Ref{CommandID: commandIDs(t, first)[0]}, Code: "claimed", Reason: "another renewed it"})
	h.anotherCommand(t, first)
}
