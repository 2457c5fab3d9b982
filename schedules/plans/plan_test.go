package plans

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"perennial/jobs/command"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
)

// world has the inputs of Make, and a real ledger.
type world struct {
	Inputs
	ledger *ledger.Ledger
	watch  *watch
}

func newWorld(t testing.TB, s Schedule, proxies ...tables.Proxy) *world {
	t.Helper()
	w := &watch{now: noon}
	l := openLedger(t, filepath.Join(t.TempDir(), "main.ledger.db"), w.Now)
	check(t, l.Write(t.Context(), func(tx *ledger.Tx) error { return tx.Observe(1, proxies...) }))
	return &world{Inputs: Inputs{Schedule: s, Now: noon, Proxies: proxies}, ledger: l, watch: w}
}

func (w *world) plan(t testing.TB) Made {
	t.Helper()
	var err error
	w.Claimed, err = w.ledger.Operations.Claimed(t.Context())
	check(t, err)
	p, err := Make(t.Context(), w.Inputs, HistoryOf(w.ledger.Queries))
	check(t, err)
	return p
}

func px(id string, in time.Duration) tables.Proxy {
	expires := noon.Add(in)
	return tables.Proxy{ProxyID: id, CountryCode: "US", Region: "Dallas", LineName: "premium", IPType: "isp", ExpiresAt: &expires, SeenAt: noon}
}

func many(n int) (all []tables.Proxy) {
	for i := range n {
		all = append(all, px(fmt.Sprintf("px_%05d", i), time.Hour+time.Duration(i)*time.Second))
	}
	return all
}

func (p Made) why(id string) string {
	for _, out := range p.LeftOut {
		if out.ProxyID == id {
			return out.Reason
		}
	}
	return ""
}

func (p Plan) ids() (ids []string) {
	for _, one := range p.Included {
		ids = append(ids, one.ProxyID)
	}
	return ids
}

func commandIDs(t testing.TB, p Made) (ids []string) {
	t.Helper()
	for _, raw := range p.Commands {
		var c command.RenewalCommand
		check(t, json.Unmarshal(raw, &c))
		ids = append(ids, c.ID)
	}
	return ids
}

func TestTrap10AProxyWithoutAnExpiryIsNeverDue(t *testing.T) {
	never := px("px_never", 0)
	never.ExpiresAt = nil
	w := newWorld(t, keepalive(), never, px("px_1", time.Hour), px("px_far", 73*time.Hour))
	p := w.plan(t)
	want(t, "included", p.ids(), []string{"px_1"})
	want(t, "due", p.Due, 1)
}

func TestTrap08ProxiesHeldByAnOperationAreLeftOut(t *testing.T) {
	w := newWorld(t, keepalive(), px("px_open", time.Hour), px("px_review", time.Hour), px("px_1", 2*time.Hour))
	paid(t, w.ledger, "px_1", 300)
	renewal(t, w.ledger, 1, "px_open", "claimed", 0, noon)
	renewal(t, w.ledger, 1, "px_review", "unresolved", 300, noon)
	p := w.plan(t)
	want(t, "included", p.ids(), []string{"px_1"})
	want(t, "reason", p.why("px_review"), ReasonClaimed)
	want(t, "reason", p.why("px_open"), ReasonClaimed)
}

func TestTrap09OneSuccessPerObservedExpiry(t *testing.T) {
	done, unread := px("px_done", time.Hour), px("px_unread", time.Hour)
	unread.SeenAt = time.UnixMicro(0)
	w := newWorld(t, keepalive(), done, unread)
	renewal(t, w.ledger, 1, "px_done", "succeeded", 300, *done.ExpiresAt)
	p := w.plan(t)
	want(t, "included", p.ids(), []string(nil))
	want(t, "reason", p.why("px_done"), ReasonRenewed)
	want(t, "reason", p.why("px_unread"), ReasonUnread)
	want(t, "due", p.Due, 2)
	want(t, "due, without the one that was renewed and not read since", p.Unpaid(), 1)
}

func TestTrap23AnUnknownPriceIsLearntFromOneCanaryPerKind(t *testing.T) {
	german := px("px_de", 4*time.Hour)
	german.CountryCode = "DE"
	w := newWorld(t, keepalive(), px("px_1", time.Hour), px("px_2", 2*time.Hour), px("px_3", 3*time.Hour), german)
	p := w.plan(t)
	want(t, "canaries", p.ids(), []string{"px_1", "px_de"})
	want(t, "commands", len(p.Commands), 2)
	want(t, "left out", p.LeftOutCounts, map[string]int{ReasonUnpriced: 2})

	paid(t, w.ledger, "px_1", 299)
	w.Schedule.DurationDays = 90
	p = w.plan(t)
	want(t, "priced", p.ids(), []string{"px_1", "px_2", "px_3", "px_de"})
	want(t, "estimate", p.EstimateCents, fact.Known(3*897))
	want(t, "commands: three of a known price together, the canary alone", len(p.Commands), 2)
}

// A canary that failed shows no price. Another proxy of the kind becomes the canary, so that the
// others do not wait forever.
func TestTrap23ACanaryThatFailedIsNotTheNextOne(t *testing.T) {
	w := newWorld(t, keepalive(), px("px_bad", time.Hour), px("px_2", 2*time.Hour), px("px_3", 3*time.Hour))
	renewal(t, w.ledger, 1, "px_bad", "failed", 0, noon.Add(time.Hour))
	w.Now = noon.Add(time.Hour - time.Minute) // after the backoff that follows the failure
	p := w.plan(t)
	want(t, "canary", p.ids(), []string{"px_2"})
	want(t, "left out", p.LeftOutCounts, map[string]int{ReasonUnpriced: 2})
	alone := newWorld(t, keepalive(), px("px_bad", time.Hour))
	renewal(t, alone.ledger, 1, "px_bad", "failed", 0, noon.Add(time.Hour))
	alone.Now = noon.Add(time.Hour - time.Minute)
	want(t, "the only one of its kind", alone.plan(t).ids(), []string{"px_bad"})
}

func TestTheBudgetGoesToTheNearestExpiry(t *testing.T) {
	dear := px("px_dear", 90*time.Minute)
	dear.Region = "Miami"
	s := keepalive()
	s.BudgetCents = 700
	w := newWorld(t, s, px("px_1", time.Hour), dear, px("px_2", 2*time.Hour), px("px_3", 3*time.Hour))
	paid(t, w.ledger, "px_1", 300)
	paid(t, w.ledger, "px_dear", 900)
	p := w.plan(t)
	want(t, "included", p.ids(), []string{"px_1", "px_2"})
	want(t, "estimate", p.EstimateCents, fact.Known(600))
	want(t, "shortfall", p.Shortfall, fact.Known(1200))
	want(t, "left out", p.LeftOutCounts, map[string]int{ReasonBudget: 2})
}

func TestTheSamePlanMadeTwiceIsTheSameCommands(t *testing.T) {
	s := keepalive()
	s.Chunk = 2
	w := newWorld(t, s, many(5)...)
	paid(t, w.ledger, "px_00004", 300)
	first := w.plan(t)
	w.Now = noon.Add(20 * time.Minute) // a later slot
	second := w.plan(t)
	want(t, "hash", second.Hash, first.Hash)
	if !reflect.DeepEqual(first.Commands, second.Commands) || len(first.Commands) != 3 {
		t.Fatalf("%d commands differ from %d", len(first.Commands), len(second.Commands))
	}
	later := noon.Add(50 * time.Hour)
	w.Proxies[4].ExpiresAt = &later
	third := w.plan(t)
	if third.Hash == first.Hash || commandIDs(t, third)[2] == commandIDs(t, first)[2] || commandIDs(t, third)[0] != commandIDs(t, first)[0] {
		t.Fatal("the command ids do not follow the observed expiries")
	}
	var c command.RenewalCommand
	check(t, json.Unmarshal(first.Commands[2], &c))
	want(t, "due_before", *c.DueBefore, *px("", time.Hour+4*time.Second).ExpiresAt)
	want(t, "expected", c.ExpectExpiresAt, map[string]time.Time{"px_00004": noon.Add(time.Hour + 4*time.Second)})
}

func TestATooLargePlanCountsWhatItLeavesOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, keepalive(), many(maxPlanned+50)...)
	paid(t, w.ledger, "px_00000", 300)
	w.Beyond = 7
	p := w.plan(t)
	want(t, "included", len(p.Included), maxPlanned)
	want(t, "left out", p.LeftOutCounts, map[string]int{ReasonBeyond: 57})
	want(t, "due", p.Due, maxPlanned+57)
	appendPlan(t, w, p)

	w.Schedule.Chunk = 1 // one command per proxy, so the limit in bytes applies
	p = w.plan(t)
	if len(p.Included) >= maxPlanned || len(p.Included) != len(p.Commands) || p.EstimateCents != fact.Known(int64(300*len(p.Included))) ||
		p.LeftOutCounts[ReasonBeyond]+len(p.Included) != maxPlanned+57 {
		t.Fatalf("%d included, %d commands, left out %v", len(p.Included), len(p.Commands), p.LeftOutCounts)
	}
	appendPlan(t, w, p)
}

func appendPlan(t testing.TB, w *world, p Made) {
	t.Helper()
	missed := slices.Repeat([]time.Time{noon}, MaxMissed)
	check(t, w.ledger.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(fact.SweepPlanned{Schedule: "keepalive", Slot: noon.Add(time.Duration(w.Schedule.Chunk) * time.Minute), Missed: missed, Plan: p.Hash, Commands: p.Commands})
	}))
}

func TestOneBadIDDoesNotSpoilACommand(t *testing.T) {
	w := newWorld(t, keepalive(), px("px_\n", time.Hour), px("..", time.Hour), px("px_<&>\"", time.Hour))
	p := w.plan(t)
	want(t, "included", p.ids(), []string{"px_<&>\""})
	want(t, "reason", p.why("px_\n"), ReasonBadID)
	want(t, "reason", p.why(".."), ReasonBadID)
}

func TestAPlanFailsWhenTheLedgerCannotBeRead(t *testing.T) {
	w := newWorld(t, keepalive(), px("px_1", time.Hour))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Make(ctx, w.Inputs, HistoryOf(w.ledger.Queries))
	wantErr(t, err, context.Canceled)
}

func TestAFailedRenewalIsRetriedThenNeedsAPerson(t *testing.T) {
	one := px("px_1", 70*time.Hour)
	w := newWorld(t, keepalive(), one)
	ids := map[string]bool{commandIDs(t, w.plan(t))[0]: true}
	for n := 1; n <= 4; n++ {
		renewal(t, w.ledger, n, "px_1", "failed", 300, *one.ExpiresAt)
		wait := 15 * time.Minute << n
		w.watch.add(wait - time.Second)
		w.Now = w.watch.Now()
		want(t, "reason", w.plan(t).why("px_1"), ReasonBackoff)
		w.watch.add(time.Second)
		w.Now = w.watch.Now()
		got := commandIDs(t, w.plan(t))
		if len(got) != 1 || ids[got[0]] {
			t.Fatalf("after %d endings: commands %v, before %v", n, got, ids)
		}
		ids[got[0]] = true
	}
	renewal(t, w.ledger, 5, "px_1", "failed", 300, *one.ExpiresAt)
	w.Now = noon.Add(69 * time.Hour)
	want(t, "reason", w.plan(t).why("px_1"), ReasonPerson)

	moved := noon.Add(100 * fact.Day) // renewed by an operator: the earlier endings belong to another expiry
	w.Proxies[0].ExpiresAt, w.Now = &moved, moved.Add(-time.Hour)
	want(t, "included", w.plan(t).ids(), []string{"px_1"})
}

// A proxy that expires in six hours is tried five times, and is reviewed while it lives.
func TestAFailedRenewalIsRetriedSoonerIfTheProxyExpiresSoon(t *testing.T) {
	one := px("px_1", 6*time.Hour)
	w := newWorld(t, keepalive(), one)
	for n := 1; n <= MaxEndings; n++ {
		renewal(t, w.ledger, n, "px_1", "failed", 300, *one.ExpiresAt)
		for w.Now = w.watch.Now(); w.plan(t).why("px_1") == ReasonBackoff; w.Now = w.watch.Now() {
			w.watch.add(time.Minute)
		}
	}
	want(t, "reason", w.plan(t).why("px_1"), ReasonPerson)
	if left := one.ExpiresAt.Sub(w.Now); left < time.Hour {
		t.Errorf("%s are left for the operator", left)
	}
}

// A fact has one estimate for a command with several proxies.
func TestARecordedPlanAddsUpToItsEstimate(t *testing.T) {
	command := json.RawMessage(`{"id":"a","duration_days":30,"proxy_ids":["px_1","px_2","px_3"]}`)
	all := PlannedProxies(fact.SweepPlanned{Commands: []json.RawMessage{command}, Planned: []fact.PlannedCommand{{CommandID: "a", Proxies: 3, EstimateCents: 1000}}})
	want(t, "sum", SumOf(all), fact.Sum{Cents: 1000})
}

// A person approves the prices that the preview showed.
func TestARecordedPlanHasThePricesOfItsPreview(t *testing.T) {
	us, de := px("px_us", time.Hour), px("px_de", 2*time.Hour)
	de.CountryCode = "DE"
	w := newWorld(t, keepalive(), us, de)
	renewal(t, w.ledger, 1, "px_us", "succeeded", 300, us.ExpiresAt.Add(-30*fact.Day))
	renewal(t, w.ledger, 2, "px_de", "succeeded", 350, de.ExpiresAt.Add(-30*fact.Day))
	plan := w.plan(t)
	recorded := PlannedProxies(fact.SweepPlanned{Commands: plan.Commands, Planned: plan.Planned})
	want(t, "commands", len(plan.Commands), 1)
	for i, one := range recorded {
		want(t, "price of "+one.ProxyID, one.EstimateCents.Or(0), plan.Included[i].EstimateCents.Or(0))
		want(t, "source", one.PriceFrom, "")
	}
	want(t, "sum", SumOf(recorded), fact.Sum{Cents: 650})
}
