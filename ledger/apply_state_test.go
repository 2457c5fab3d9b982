package ledger

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
)

var allStates = []fact.State{
	fact.StateAccepted, fact.StateHeld, fact.StateSending, fact.StateWaiting, fact.StateOpen, fact.StateReview, fact.StateRejected,
	fact.StateDelivered, fact.StateRefunded, fact.StateCompleted, fact.StatePartial, fact.StateFailed, fact.StateResolved,
}

// drawn reads the arrows from docs/state-machine.md.
func drawn(t *testing.T) map[[2]fact.State]bool {
	t.Helper()
	text, err := os.ReadFile("../docs/state-machine.md")
	check(t, err)
	known := map[fact.State]bool{}
	for _, s := range allStates {
		known[s] = true
	}
	arrows := map[[2]fact.State]bool{}
	put := func(from, to string) {
		if known[fact.State(from)] && known[fact.State(to)] {
			arrows[[2]fact.State{fact.State(from), fact.State(to)}] = true
		}
	}
	word := regexp.MustCompile("`([a-z]+)`")
	row := regexp.MustCompile("(?m)^\\| `([a-z]+)` \\| (`[a-z]+`(?:, `[a-z]+`)*) \\|")
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		for _, to := range word.FindAllStringSubmatch(m[2], -1) {
			put(m[1], to[1])
		}
	}
	return arrows
}

func TestTheDatabaseAllowsExactlyTheArrowsThatAreDrawn(t *testing.T) {
	b := newBook(t)
	b.add(opened(1), accepted(fact.KindOrder, "o/1"))
	arrows := drawn(t)
	if len(arrows) < 25 {
		t.Fatalf("only %d arrows could be read from the document", len(arrows))
	}
	db := raw(t, b.path)
	db.SetMaxOpenConns(1)
	for _, from := range allStates {
		for _, to := range allStates {
			_, err := db.Exec(`DELETE FROM operations`)
			check(t, err)
			_, err = db.Exec(`INSERT INTO operations (id, command_id, kind, chunk, generation, idempotency_key, state, version, accepted_at, updated_at)
				VALUES ('x/1', 'x', 'order', '1', 1, 'k', ?, 1, 0, 0)`, string(from))
			check(t, err)
			_, err = db.Exec(`UPDATE operations SET state = ?`, string(to))
			if want := arrows[[2]fact.State{from, to}]; (err == nil) != want {
				t.Errorf("%s → %s: drawn %t, and the database says %v", from, to, want, err)
			}
			if err != nil && !strings.Contains(err.Error(), "state-machine.md") {
				t.Errorf("%s → %s is refused without saying where to look: %v", from, to, err)
			}
		}
	}
}

// taken returns a path for each arrow: facts that bring an operation to the arrow's first
// state, and last the fact that takes the arrow.
func taken() map[[2]fact.State][]fact.Fact {
	waits := fact.OperationWaiting{Ref: ref("x/1"), Attempt: 1, Reason: "r", NextAt: noon}
	held := fact.CommandHeld{Ref: ref("x/1"), Reason: "limit"}
	review := fact.OperationReview{Ref: ref("x/1"), Attempt: 1, Reason: "lost"}
	rejected := fact.CommandRejected{Ref: ref("x/1"), Code: "c", Reason: "r"}
	cancelled := fact.CommandCancelled{Ref: ref("x/1"), By: "ada", Reason: "r"}
	open := fact.OrderAccepted{Ref: ref("x/1"), Attempt: 1, OrderNo: "no of x/1", NextAt: noon}
	order := func(then ...fact.Fact) []fact.Fact {
		return append([]fact.Fact{accepted(fact.KindOrder, "x/1")}, then...)
	}
	sent := func(then ...fact.Fact) []fact.Fact { return append(order(sending("x/1", 1)), then...) }
	renewal := func(then ...fact.Fact) []fact.Fact {
		return append([]fact.Fact{accepted(fact.KindRenewal, "x/1", "px_1", "px_2"), sending("x/1", 1)}, then...)
	}
	partial := settled("x/1", "partial", line("px_1", "succeeded", 300, 0), line("px_2", "unresolved", 300, 0))
	return map[[2]fact.State][]fact.Fact{
		{fact.StateAccepted, fact.StateSending}:  order(sending("x/1", 1)),
		{fact.StateAccepted, fact.StateHeld}:     order(held),
		{fact.StateAccepted, fact.StateWaiting}:  order(waits),
		{fact.StateAccepted, fact.StateReview}:   order(review),
		{fact.StateAccepted, fact.StateRejected}: order(rejected),
		{fact.StateHeld, fact.StateAccepted}:     order(held, fact.CommandReleased{Ref: ref("x/1"), By: "ada", Reason: "go"}),
		{fact.StateHeld, fact.StateRejected}:     order(held, cancelled),
		{fact.StateSending, fact.StateOpen}:      sent(open),
		{fact.StateSending, fact.StateWaiting}:   sent(waits),
		{fact.StateSending, fact.StateRejected}:  sent(rejected),
		{fact.StateSending, fact.StateReview}:    sent(review),
		{fact.StateSending, fact.StateCompleted}: renewal(settled("x/1", "completed", line("px_1", "succeeded", 300, 0), line("px_2", "succeeded", 300, 0))),
		{fact.StateSending, fact.StatePartial}:   renewal(partial),
		{fact.StateSending, fact.StateFailed}:    renewal(settled("x/1", "failed", line("px_1", "failed", 300, 300), line("px_2", "failed", 300, 300))),
		{fact.StateWaiting, fact.StateSending}:   sent(waits, sending("x/1", 2)),
		{fact.StateWaiting, fact.StateWaiting}:   sent(waits, waits),
		{fact.StateWaiting, fact.StateReview}:    sent(waits, review),
		{fact.StateWaiting, fact.StateRejected}:  sent(waits, rejected),
		{fact.StateWaiting, fact.StateHeld}:      sent(waits, held),
		{fact.StateOpen, fact.StateOpen}:         sent(open, fact.OrderProgressed{OrderState: orderState("x/1", "procuring", 0, 0), NextAt: noon}),
		{fact.StateOpen, fact.StateDelivered}:    sent(open, fact.OrderDelivered{OrderState: orderState("x/1", "completed", 100, 0)}),
		{fact.StateOpen, fact.StateRefunded}:     sent(open, fact.OrderRefunded{OrderState: orderState("x/1", "refunded", 100, 100), RefundedAt: noon}),
		{fact.StateOpen, fact.StateReview}:       sent(open, review),
		{fact.StateReview, fact.StateReview}:     renewal(review, resolved("x/1", "px_1", "not_charged", 0)),
		{fact.StateReview, fact.StateResolved}:   sent(review, resolved("x/1", "", "not_charged", 0)),
		{fact.StatePartial, fact.StatePartial}:   renewal(partial, resolved("x/1", "px_2", "charged", 300)),
		{fact.StateResolved, fact.StateResolved}: sent(review, resolved("x/1", "", "not_charged", 0), resolved("x/1", "", "not_charged", 0, planned("x/1~2", 2))),
		{fact.StateRejected, fact.StateRejected}: sent(rejected, resolved("x/1", "", "not_charged", 0, planned("x/1~2", 2))),
	}
}

func TestEveryArrowThatIsDrawnIsTakenByAFact(t *testing.T) {
	t.Parallel()
	ways := taken()
	for arrow := range drawn(t) {
		if ways[arrow] == nil {
			t.Errorf("%s → %s is drawn, and no fact takes it", arrow[0], arrow[1])
		}
	}
	text, err := os.ReadFile("../docs/state-machine.md")
	check(t, err)
	for arrow, facts := range ways {
		b := newBook(t)
		b.add(opened(1_000))
		b.add(facts[:len(facts)-1]...)
		if o := b.operation("x/1"); o.State != arrow[0] {
			t.Errorf("the way to %s → %s leads to %s", arrow[0], arrow[1], o.State)
		}
		last := facts[len(facts)-1]
		if err := b.tryAdd(last); err != nil {
			t.Errorf("%s → %s: %v", arrow[0], arrow[1], err)
			continue
		}
		if o := b.operation("x/1"); o.State != arrow[1] {
			t.Errorf("%s of an operation that is %s leads to %s, not to %s", last.FactType(), arrow[0], o.State, arrow[1])
		}
		row := regexp.MustCompile("(?m)^\\| `" + string(arrow[0]) + "` \\| [^|]*`" + string(arrow[1]) + "`[^|]*\\| [^|]*`" + last.FactType() + "`")
		if !row.Match(text) {
			t.Errorf("%s → %s by %s is not drawn", arrow[0], arrow[1], last.FactType())
		}
		check(t, b.Close())
	}
}

func TestAFactThatIsNoArrowIsRefusedWhole(t *testing.T) {
	b := newBook(t)
	b.add(opened(1000), accepted(fact.KindOrder, "o/1"), accepted(fact.KindRenewal, "r/0001", "px_1"))
	before := b.balance()
	for _, f := range []fact.Fact{
		fact.OrderDelivered{OrderState: orderState("o/1", "completed", 100, 0)},
		fact.OrderAccepted{Ref: ref("o/1"), OrderNo: "n", NextAt: noon},
		fact.CommandReleased{Ref: ref("o/1"), By: "ada", Reason: "x"},
		settled("r/0001", "completed", line("px_1", "succeeded", 300, 0)),
	} {
		if err := b.tryAdd(f); err == nil {
			t.Errorf("%s of an accepted operation went through", f.FactType())
		}
	}
	if b.balance() != before || b.operation("o/1").State != fact.StateAccepted {
		t.Fatal("a refused fact left something behind")
	}
	b.add(sending("r/0001", 1), settled("r/0001", "completed", line("px_1", "succeeded", 300, 0)))
	if err := b.tryAdd(sending("r/0001", 2)); err == nil {
		t.Fatal("a completed renewal was sent again")
	}
	if err := b.tryAdd(settled("r/0001", "completed", line("px_1", "succeeded", 300, 0))); err == nil {
		t.Fatal("a replay was booked a second time")
	}
}

func TestEndedStatesAreThoseNothingWaitsFor(t *testing.T) {
	b := newBook(t)
	b.add(history()...)
	counts, err := b.Operations.StateCounts(t.Context())
	check(t, err)
	unfinished, err := b.Operations.Unfinished(t.Context(), 100)
	check(t, err)
	want := int64(0)
	for s, n := range counts {
		if !s.Ended() {
			want += n
		}
	}
	if int64(len(unfinished)) != want {
		t.Fatalf("%d unfinished, the states say %d: %v", len(unfinished), want, counts)
	}
	for _, o := range unfinished {
		if o.State.Ended() {
			t.Errorf("%s is %s and listed as unfinished", o.ID, o.State)
		}
	}
}

func TestAnOrderNumberIsForOrders(t *testing.T) {
	b := newBook(t)
	b.add(opened(1), accepted(fact.KindRenewal, "r/0001", "px_1"), sending("r/0001", 1))
	if err := b.tryAdd(fact.OrderAccepted{Ref: ref("r/0001"), OrderNo: "n", NextAt: noon}); err == nil {
		t.Fatal("a renewal got an order number")
	}
}

func TestVerifyFindsAKeyOfTwoOperations(t *testing.T) {
	b := newBook(t)
	b.add(opened(1), accepted(fact.KindRenewal, "r/0001", "px_1"))
	twice := accepted(fact.KindOrder, "o/1")
	twice.Operations[0].Key = "key of r/0001"
	b.add(twice)
	_, err := b.Verify(t.Context())
	if broken, ok := errors.AsType[*chain.BrokenError](err); !ok || broken.Check != "key" || !strings.Contains(broken.Detail, "o/1") || !strings.Contains(broken.Detail, "r/0001") {
		t.Errorf("%v", err)
	}
}

// The window starts at the first attempt that may have executed, whatever follows.
func TestTrap02TheFirstAttemptThatMayHaveExecutedIsKept(t *testing.T) {
	b := newBook(t)
	lost := fact.OperationWaiting{Ref: ref("o/1"), Attempt: 1, Reason: "reset", Ambiguous: true, NextAt: noon}
	b.add(opened(1000), accepted(fact.KindOrder, "o/1"), sending("o/1", 1), lost)
	first := b.operation("o/1").FirstAmbiguousAt
	if first == nil {
		t.Fatal("an attempt that may have executed has no time")
	}
	b.add(sending("o/1", 2), fact.OperationWaiting{Ref: ref("o/1"), Attempt: 2, Reason: "slow down", NextAt: noon}, sending("o/1", 3), lost)
	if o := b.operation("o/1"); o.FirstAmbiguousAt == nil || !o.FirstAmbiguousAt.Equal(*first) || o.Ambiguous != 2 {
		t.Fatalf("%d ambiguous since %v, the first was at %v", o.Ambiguous, o.FirstAmbiguousAt, first)
	}
}

// A proxy whose renewal may have been charged is not renewed again.
func TestTrap03AReviewKeepsItsProxies(t *testing.T) {
	b := newBook(t)
	b.add(opened(1000), accepted(fact.KindRenewal, "r/0001", "px_1"), sending("r/0001", 1),
		fact.OperationReview{Ref: ref("r/0001"), Attempt: 1, Code: "idempotency_unresolved", Reason: "it may have charged", Ambiguous: true})
	if err := b.tryAdd(accepted(fact.KindRenewal, "s/0001", "px_1")); err == nil {
		t.Fatal("a proxy in review could be renewed again")
	}
	b.add(resolved("r/0001", "", "not_charged", 0), accepted(fact.KindRenewal, "s/0001", "px_1"))
}
