package ledger

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"perennial/ledger/fact"
	"perennial/ledger/tables"
)

func (b *book) observe(pass int64, seen time.Time, proxies ...tables.Proxy) {
	b.t.Helper()
	check(b.t, b.Write(b.t.Context(), func(tx *Tx) error {
		for i := range proxies {
			proxies[i].SeenAt = seen
		}
		return tx.Observe(pass, proxies...)
	}))
}

func (b *book) expiring(until time.Time) (found []string) {
	b.t.Helper()
	check(b.t, b.Fleet.Expiring(b.t.Context(), until, func(p tables.Proxy) error { found = append(found, p.ProxyID); return nil }))
	return found
}

func TestTrap10AProxyWithoutAnExpiryIsNeverDue(t *testing.T) {
	b := newBook(t)
	var zero time.Time
	b.observe(1, noon, tables.Proxy{ProxyID: "px_never"}, tables.Proxy{ProxyID: "px_zero", ExpiresAt: &zero}, tables.Proxy{ProxyID: "px_soon", ExpiresAt: at(time.Hour)})
	if got := b.expiring(noon.AddDate(500, 0, 0)); !slices.Equal(got, []string{"px_soon"}) {
		t.Fatalf("due: %v", got)
	}
	if p, err := b.Fleet.Proxy(t.Context(), "px_never"); err != nil || p.ExpiresAt != nil {
		t.Fatalf("a missing expiry became %v (%v)", p.ExpiresAt, err)
	}
}

func TestTheNearestExpiryComesFirst(t *testing.T) {
	b := newBook(t)
	b.observe(1, noon, tables.Proxy{ProxyID: "c", ExpiresAt: at(3 * time.Hour)}, tables.Proxy{ProxyID: "b", ExpiresAt: at(time.Hour)},
		tables.Proxy{ProxyID: "a", ExpiresAt: at(time.Hour)}, tables.Proxy{ProxyID: "d", ExpiresAt: at(4 * time.Hour)})
	if got := b.expiring(noon.Add(3 * time.Hour)); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Fatalf("%v", got)
	}
}

func TestTrap31AProxyIsUnlistedAfterAWholePassWithoutIt(t *testing.T) {
	b := newBook(t)
	soon := at(time.Hour)
	b.observe(1, noon, tables.Proxy{ProxyID: "stays", ExpiresAt: soon}, tables.Proxy{ProxyID: "leaves", ExpiresAt: soon}, tables.Proxy{ProxyID: "read", ExpiresAt: soon})
	began := noon.Add(time.Minute)
	b.observe(2, began.Add(time.Second), tables.Proxy{ProxyID: "stays", ExpiresAt: soon})
	b.observe(0, began.Add(2*time.Second), tables.Proxy{ProxyID: "read", ExpiresAt: soon}) // read alone, during the pass
	if got := b.expiring(*soon); len(got) != 3 {
		t.Fatalf("half a pass made %v", got)
	}
	check(t, b.Write(t.Context(), func(tx *Tx) error { return tx.FinishPass(2, began) }))
	if p, err := b.Fleet.Proxy(t.Context(), "leaves"); err != nil || !strings.HasPrefix(p.Remarks(), "not listed since 20") {
		t.Errorf("%q %v", p.Remarks(), err)
	}
	if p, err := b.Fleet.Proxy(t.Context(), "stays"); err != nil || p.Remarks() != "" {
		t.Errorf("%q %v", p.Remarks(), err)
	}
	if got := b.expiring(*soon); len(got) != 3 {
		t.Fatalf("after the pass: %v", got)
	}
	unlisted := func() (ids []string) {
		all, err := b.Fleet.Unlisted(t.Context(), 10)
		check(t, err)
		for _, p := range all {
			ids = append(ids, p.ProxyID)
		}
		return ids
	}
	if got := unlisted(); !slices.Equal(got, []string{"leaves"}) {
		t.Fatalf("unlisted: %v", got)
	}
	b.observe(0, began.Add(time.Minute), tables.Proxy{ProxyID: "leaves", ExpiresAt: soon}) // it exists, and is not listed
	if _, known, err := b.Fleet.SeenExpiry(t.Context(), "leaves"); err != nil || !known || len(unlisted()) != 1 {
		t.Fatalf("read alone: %v %v", known, err)
	}
	b.observe(3, began.Add(time.Minute), tables.Proxy{ProxyID: "leaves", ExpiresAt: soon})
	if got := unlisted(); len(got) != 0 {
		t.Fatalf("one that came back: %v", got)
	}
}

// Absence proves nothing about a proxy: it leaves the table when it has expired, or when
// its own read does not find it.
func TestTrap66AProxyLeavesByEvidenceAboutIt(t *testing.T) {
	b := newBook(t)
	b.observe(1, noon.Add(-time.Hour), tables.Proxy{ProxyID: "expired", ExpiresAt: at(-time.Minute)}, tables.Proxy{ProxyID: "lives", ExpiresAt: at(time.Hour)},
		tables.Proxy{ProxyID: "endless"}, tables.Proxy{ProxyID: "unknown", ExpiresAt: at(time.Hour)}, tables.Proxy{ProxyID: "renewed", ExpiresAt: at(-time.Minute)})
	check(t, b.Write(t.Context(), func(tx *Tx) error {
		return errors.Join(tx.Stale("renewed"), tx.FinishPass(2, noon), tx.Gone("unknown"))
	}))
	page, err := b.Fleet.Proxies(t.Context(), "", 10)
	check(t, err)
	var got []string
	for _, p := range page {
		got = append(got, p.ProxyID)
	}
	if !slices.Equal(got, []string{"endless", "lives", "renewed"}) {
		t.Errorf("left: %v", got)
	}
	var known, lost int
	check(t, b.Write(t.Context(), func(tx *Tx) (err error) { known, lost, err = tx.CountLost(2, noon); return err }))
	if known != 2 || lost != 2 {
		t.Errorf("%d of %d are lost", lost, known)
	}
}

func TestTrap65AnUnreadableEntryKeepsWhatWasKnown(t *testing.T) {
	b := newBook(t)
	b.observe(1, noon, tables.Proxy{ProxyID: "px_1", Region: "Dallas", ExpiresAt: at(time.Hour)})
	check(t, b.Write(t.Context(), func(tx *Tx) error {
		return errors.Join(tx.ObserveUnreadable(2, "px_1", "expires_at is not a string"), tx.ObserveUnreadable(2, "px_2", "expires_at is not a string"), tx.FinishPass(2, noon.Add(time.Minute)))
	}))
	p, err := b.Fleet.Proxy(t.Context(), "px_1")
	check(t, err)
	if p.ExpiresAt == nil || p.Region != "Dallas" || p.UnlistedAt != nil || p.Unreadable != "expires_at is not a string" {
		t.Errorf("%+v", p)
	}
	stays := 0
	check(t, b.Fleet.Staying(t.Context(), noon, func(tables.Proxy) error { stays++; return nil }))
	if unlisted, unreadable, err := b.Fleet.CountUnlisted(t.Context()); err != nil || unlisted != 0 || unreadable != 2 || stays != 1 {
		t.Errorf("%d unlisted, %d unreadable, %d stay, %v", unlisted, unreadable, stays, err)
	}
	if _, known, err := b.Fleet.SeenExpiry(t.Context(), "px_2"); err != nil || known {
		t.Errorf("an expiry that nobody read: %v", err)
	}
}

func TestARenewedProxyIsRereadBeforeItIsPaidAgain(t *testing.T) {
	b := newBook(t)
	b.observe(1, noon, tables.Proxy{ProxyID: "px_1", ExpiresAt: at(time.Hour)})
	check(t, b.Write(t.Context(), func(tx *Tx) error { return tx.Stale("px_1") }))
	p, err := b.Fleet.Proxy(t.Context(), "px_1")
	check(t, err)
	if p.SeenAt.After(time.Unix(0, 0)) {
		t.Fatalf("seen at %s", p.SeenAt)
	}
}

// A refunded or unresolved line shows its price too.
func TestThePriceOfARenewalIsWhatItsLastLineNames(t *testing.T) {
	b := newBook(t)
	like := tables.Proxy{ProxyID: "px_new", CountryCode: "US", Region: "Dallas", LineName: "premium", IPType: "isp"}
	paid := like
	paid.ProxyID = "px_1a"
	b.observe(1, noon, like, paid)
	if none, err := b.Fleet.LastPaid(t.Context(), like); err != nil || none.For(30).Known() {
		t.Fatal("a price before anything was paid")
	}
	b.add(history()...)
	last, err := b.Fleet.PaidPerDay(t.Context(), "px_1b")
	if err != nil || last.Cents != 310 || last.Days != 30 {
		t.Errorf("px_1b: %+v (%v)", last, err)
	}
	if kind, err := b.Fleet.LastPaid(t.Context(), like); err != nil || kind.For(60) != fact.Known(600) {
		t.Errorf("one like it: %+v (%v)", kind, err)
	}
	like.Protocol = "socks5" // an offer has a protocol, and a price of its own
	if other, err := b.Fleet.LastPaid(t.Context(), like); err != nil || other.For(30).Known() {
		t.Errorf("another protocol has the same price: %+v (%v)", other, err)
	}
	if back, err := b.Fleet.PaidPerDay(t.Context(), "px_3a"); err != nil || back.Cents != 300 {
		t.Errorf("a refunded renewal has the price %+v (%v)", back, err)
	}
	if dearest, err := b.Money.Dearest(t.Context(), 30); err != nil || dearest != 310 {
		t.Errorf("the dearest is %d (%v)", dearest, err)
	}
}

// If nothing was ever paid, a line in review shows the price, for its kind and as the highest
// price.
func TestAnUnresolvedLineNamesThePriceOfItsKind(t *testing.T) {
	b := newBook(t)
	like := tables.Proxy{CountryCode: "US", Region: "Dallas"}
	mine, other := like, like
	mine.ProxyID, other.ProxyID = "px_1", "px_2"
	b.observe(1, noon, mine, other)
	b.add(opened(1000), accepted(fact.KindRenewal, "r/0001", "px_1"), sending("r/0001", 1),
		fact.OperationReview{Ref: ref("r/0001"), Attempt: 1, Reason: "pending", Settlement: &fact.Lines{
			ChargedCents: 300, Items: []fact.Line{{ProxyID: "px_1", State: fact.LineUnresolved, ChargedCents: 300}},
		}})
	if paid, err := b.Fleet.LastPaid(t.Context(), other); err != nil || paid.Cents != 300 {
		t.Errorf("%+v (%v)", paid, err)
	}
	if cents, err := b.Money.Dearest(t.Context(), 60); err != nil || cents != 600 {
		t.Errorf("the dearest is %d (%v)", cents, err)
	}
	// An answer below the amount in suspense returns the rest, which does not lower a price. A
	// corrected answer adds up.
	b.add(resolved("r/0001", "px_1", "charged", 250))
	for _, find := range []func() (tables.Paid, error){
		func() (tables.Paid, error) { return b.Fleet.PaidPerDay(t.Context(), "px_1") }, func() (tables.Paid, error) { return b.Fleet.LastPaid(t.Context(), other) },
	} {
		if paid, err := find(); err != nil || paid.Cents != 250 {
			t.Errorf("answered as 250: %+v (%v)", paid, err)
		}
	}
	if cents, err := b.Money.Dearest(t.Context(), 30); err != nil || cents != 250 {
		t.Errorf("the dearest is %d (%v)", cents, err)
	}
	kinds, err := b.Operations.ClaimedKinds(t.Context())
	if err != nil || len(kinds) != 0 {
		t.Errorf("what is in review holds its kind: %+v (%v)", kinds, err)
	}
}

func TestEndingsWithoutARenewalAreThoseOfOneExpiry(t *testing.T) {
	b := newBook(t)
	b.add(opened(1))
	expiry, moved := *at(24 * time.Hour), *at(30 * 24 * time.Hour)
	count := func(what string, expiry time.Time, n int) {
		t.Helper()
		e := b.failedRenewals("px_1", expiry)
		if e.All != n || e.Counted != n || n > 0 && e.LastCounted.Before(noon) || !e.LastExcused.IsZero() {
			t.Fatalf("%s: %+v", what, e)
		}
		e = b.failedRenewals("px_1", expiry, "cancelled", "insufficient_wallet_balance")
		if e.All != n || e.Counted != 0 || !e.LastCounted.IsZero() || n > 0 && e.LastExcused.Before(noon) {
			t.Fatalf("%s, excused: %+v", what, e)
		}
	}
	fail := func(id string, observed *time.Time) {
		sent := sending(id, 1)
		if observed != nil {
			sent.Observed = map[string]time.Time{"px_1": *observed}
		}
		b.add(accepted(fact.KindRenewal, id, "px_1"), sent, fact.CommandRejected{Ref: ref(id), Code: "insufficient_wallet_balance", Reason: "low"})
	}
	fail("r1/0001", nil)
	fail("r2/0001", &expiry)
	count("one looked and one did not", expiry, 2)
	count("a person renewed it by hand", expiry.AddDate(0, 0, 30), 0)
	b.add(accepted(fact.KindRenewal, "r3/0001", "px_1"), sending("r3/0001", 1), settled("r3/0001", "completed", line("px_1", "succeeded", 300, 0)))
	count("after a success", moved, 0)
	fail("r4/0001", &moved)
	fail("r5/0001", nil)
	count("at the new expiry", moved, 2)
	count("at the old one", expiry, 2) // r2, which saw it, and r5
}

func TestWhatIsClaimedMayBeInReview(t *testing.T) {
	b := newBook(t)
	b.add(opened(1),
		accepted(fact.KindRenewal, "r1/0001", "px_1"),
		accepted(fact.KindRenewal, "r2/0001", "px_2", "px_3"), sending("r2/0001", 1),
		settled("r2/0001", "partial", line("px_2", "succeeded", 300, 0), line("px_3", "unresolved", 300, 0)),
		accepted(fact.KindRenewal, "r3/0001", "px_4"), sending("r3/0001", 1),
		fact.OperationReview{Ref: ref("r3/0001"), Attempt: 1, Code: "idempotency_unresolved", Reason: "frozen", Ambiguous: true})
	claimed, err := b.Operations.Claimed(t.Context())
	check(t, err)
	review, err := b.Operations.ClaimedInReview(t.Context())
	check(t, err)
	if fmt.Sprint(claimed, review) != "map[px_1:true px_3:true px_4:true] map[px_3:true px_4:true]" {
		t.Fatalf("claimed %v, in review %v", claimed, review)
	}
}

func TestACommandEndsWhenNothingOfItIsUnderWay(t *testing.T) {
	b := newBook(t)
	b.add(opened(1))
	ended := func(what string, want bool) {
		t.Helper()
		if got, err := b.Operations.CommandEnded(t.Context(), "r1"); err != nil || got != want {
			t.Fatalf("%s: %v (%v)", what, got, err)
		}
	}
	ended("it never came", false)
	b.add(accepted(fact.KindRenewal, "r1/0001", "px_1", "px_2"), sending("r1/0001", 1))
	ended("sending", false)
	b.add(settled("r1/0001", "partial", line("px_1", "failed", 300, 300), line("px_2", "unresolved", 300, 0)))
	ended("a line waits for a person", false)
	b.add(resolved("r1/0001", "px_2", "not_charged", 0))
	ended("all of it", true)
	b.add(fact.CommandRejected{Ref: fact.Ref{CommandID: "r2"}, ContentHash: "h", Code: "claimed", Reason: "another renews it"})
	if got, err := b.Operations.CommandEnded(t.Context(), "r2"); err != nil || !got {
		t.Fatalf("refused: %v (%v)", got, err)
	}
}

func TestASlotFiresOnce(t *testing.T) {
	b := newBook(t)
	b.add(opened(1), fact.SweepPlanned{Schedule: "keep", Slot: noon, Plan: "p1", Due: 3})
	elsewhere := noon.In(time.FixedZone("UTC+8", 8*3600))
	if err := b.tryAdd(fact.SweepPlanned{Schedule: "keep", Slot: elsewhere, Plan: "p1"}); err == nil {
		t.Fatal("one slot fired twice")
	}
	b.add(fact.SweepPlanned{Schedule: "other", Slot: noon, Plan: "p2"}, fact.SweepHeld{Schedule: "other", Slot: noon, Plan: "p2", Reason: "approval"})
	slot, err := b.Sweeps.LastSlot(t.Context(), "keep")
	check(t, err)
	plan, err := b.Sweeps.Plan(t.Context(), slot)
	check(t, err)
	if plan.Due != 3 || slot.State != "planned" {
		t.Fatalf("%+v %+v", slot, plan)
	}
	held, err := b.Sweeps.HeldSlots(t.Context(), "p2")
	check(t, err)
	unfinished, err := b.Sweeps.UnfinishedSlots(t.Context(), "keep")
	check(t, err)
	if len(held) != 1 || len(unfinished) != 1 {
		t.Fatalf("held %v, unfinished %v", held, unfinished)
	}
}

func TestProxiesAreListedPageByPage(t *testing.T) {
	b := newBook(t)
	b.observe(1, noon, tables.Proxy{ProxyID: "c", ExpiresAt: at(time.Hour)}, tables.Proxy{ProxyID: "a"}, tables.Proxy{ProxyID: "gone", ExpiresAt: at(time.Hour)}, tables.Proxy{ProxyID: "b"})
	b.observe(2, noon.Add(time.Hour), tables.Proxy{ProxyID: "c", ExpiresAt: at(2 * time.Hour)}, tables.Proxy{ProxyID: "a"}, tables.Proxy{ProxyID: "b"})
	check(t, b.Write(t.Context(), func(tx *Tx) error { return tx.Gone("gone") }))
	for after, want := range map[string][]string{"": {"a", "b"}, "a": {"b", "c"}, "b": {"c"}, "c": nil} {
		page, err := b.Fleet.Proxies(t.Context(), after, 2)
		check(t, err)
		var got []string
		for _, p := range page {
			got = append(got, p.ProxyID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("behind %q: %v", after, got)
		}
	}
}

// A raised price is learned from another proxy of the kind. A later payment for the proxy
// itself counts first.
func TestThePriceIsTheNewestOfAProxyAndItsKind(t *testing.T) {
	b := newBook(t)
	mine, sibling, stranger := tables.Proxy{ProxyID: "px_1", Region: "Dallas"}, tables.Proxy{ProxyID: "px_2", Region: "Dallas"}, tables.Proxy{ProxyID: "px_3", Region: "Austin"}
	b.observe(1, noon, mine, sibling, stranger)
	b.add(opened(100_000))
	for i, step := range []struct {
		paid  string
		cents int64
		want  int64
	}{{"px_1", 300, 300}, {"px_3", 900, 300}, {"px_2", 3000, 3000}, {"px_1", 400, 400}, {"px_2", 200, 200}} {
		id := fmt.Sprintf("r%d/1", i)
		b.add(accepted(fact.KindRenewal, id, step.paid), sending(id, 1), settled(id, "completed", line(step.paid, "succeeded", step.cents, 0)))
		if paid, err := b.Fleet.LastPrice(t.Context(), "px_1"); err != nil || paid.For(30) != fact.Known(step.want) {
			t.Errorf("after %+v: %+v, %v", step, paid, err)
		}
	}
	b.add(accepted(fact.KindRenewal, "many/1", "px_2", "px_3"), sending("many/1", 1), settled("many/1", "completed", line("px_2", "succeeded", 250, 0), line("px_3", "succeeded", 950, 0)))
	for want, like := range map[int64]*tables.Proxy{950: nil, 250: &mine} {
		if most, err := b.Fleet.DearestLine(t.Context(), "many", like); err != nil || most != want {
			t.Errorf("the dearest line is %d of %d, %v", most, want, err)
		}
	}
}

// After a renewal the paid-for expiry is expected, counts in lists and figures, and is
// replaced by a later read. If the API does not say what a renewal does to an expiry, none
// is expected.
func TestARenewedProxyCountsAtItsExpectedExpiry(t *testing.T) {
	b := newBook(t)
	b.add(opened(9000))
	renew := func(op, proxy string, observed *time.Time, state string) {
		t.Helper()
		sent, refunded := sending(op, 1), int64(0)
		if observed != nil {
			sent.Observed = map[string]time.Time{proxy: *observed}
		}
		if state == "failed" {
			refunded = 300
		}
		b.add(accepted(fact.KindRenewal, op, proxy), sent, settled(op, "partial", line(proxy, state, 300, refunded)))
		check(t, b.Write(t.Context(), func(tx *Tx) error { return tx.Stale(proxy) }))
	}
	soon, month := at(48*time.Hour), at(48*time.Hour+30*24*time.Hour)
	b.observe(1, noon, tables.Proxy{ProxyID: "paid", ExpiresAt: soon}, tables.Proxy{ProxyID: "failed", ExpiresAt: soon}, tables.Proxy{ProxyID: "expired", ExpiresAt: at(-time.Hour)},
		tables.Proxy{ProxyID: "unread", ExpiresAt: soon}, tables.Proxy{ProxyID: "twice", ExpiresAt: soon})
	renew("r1/1", "paid", soon, "succeeded")
	renew("r2/1", "failed", soon, "failed")
	renew("r3/1", "expired", at(-time.Hour), "succeeded")
	renew("r4/1", "unread", nil, "succeeded")
	renew("r5/1", "twice", soon, "succeeded")
	renew("r6/1", "twice", soon, "succeeded")
	for id, want := range map[string]*time.Time{"paid": month, "failed": nil, "expired": nil, "unread": nil, "twice": nil} {
		p, err := b.Fleet.Proxy(t.Context(), id)
		check(t, err)
		if got := p.ExpectedExpiresAt; (got == nil) != (want == nil) || got != nil && !got.Equal(*want) {
			t.Errorf("%s is expected to expire at %v, not %v", id, got, want)
		}
	}
	week := noon.Add(7 * 24 * time.Hour)
	if page, err := b.Fleet.ExpiringPage(t.Context(), tables.From(noon), noon.AddDate(1, 0, 0), 9); err != nil || !slices.Equal(proxyIDs(page), []string{"failed", "twice", "unread", "paid"}) {
		t.Errorf("%v %v", proxyIDs(page), err)
	}
	if n, err := b.Metrics.CountExpiring(t.Context(), []time.Time{noon, week}); err != nil || n[1]-n[0] != 3 {
		t.Errorf("%v expire within the week: %v", n, err)
	}
	if due := b.expiring(week); !slices.Contains(due, "paid") { // sweeps use what was read, and check renewals themselves
		t.Errorf("due by what was read: %v", due)
	}
	b.observe(2, noon.Add(time.Hour), tables.Proxy{ProxyID: "paid", ExpiresAt: soon})
	if p, err := b.Fleet.Proxy(t.Context(), "paid"); err != nil || p.ExpectedExpiresAt != nil {
		t.Errorf("a later read left %v expected (%v)", p.ExpectedExpiresAt, err)
	}
}
