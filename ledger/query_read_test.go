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

func ids(operations []fact.Operation) []string {
	out := make([]string, 0, len(operations))
	for _, o := range operations {
		out = append(out, o.ID)
	}
	return out
}

func TestACommandsOperationsAreItsOwn(t *testing.T) {
	b := newBook(t)
	b.add(opened(1))
	for _, command := range []string{"a", "a/1", "a0", "a/", "a-1", "aa"} {
		b.add(fact.CommandAccepted{Ref: fact.Ref{CommandID: command}, Kind: fact.KindOrder, ContentHash: "h", Content: []byte(`{}`), DurationDays: 30,
			Operations: []fact.Planned{{OperationID: command + "/1", Chunk: "1", Generation: 1, Key: command}}})
	}
	for _, command := range []string{"a", "a/1", "a0", "a/", "a-1", "aa"} {
		all, err := b.Operations.OperationsOf(t.Context(), command)
		check(t, err)
		if len(all) != 1 || all[0].CommandID != command {
			t.Errorf("%q has %v", command, ids(all))
		}
	}
}

// "a" with its chunk "1" and a command called "a/1" share no operation id; otherwise one of
// them could never be accepted.
func TestACommandCalledLikeAnotherOnesOperationIsStillAccepted(t *testing.T) {
	b := newBook(t)
	b.add(opened(1), accepted(fact.KindOrder, "a/1"))
	err := b.tryAdd(fact.CommandAccepted{Ref: fact.Ref{CommandID: "a/1"}, Kind: fact.KindOrder, ContentHash: "h", Content: []byte(`{}`), DurationDays: 30,
		Operations: []fact.Planned{{OperationID: "a/1/1", Chunk: "1", Generation: 1, Key: "k"}}})
	check(t, err)
	rows, err := b.RowsOf(t.Context(), "a/1")
	check(t, err)
	if len(rows) != 1 {
		t.Fatalf("%d rows under the name", len(rows))
	}
}

func TestWhatIsDueOfOneKindHidesNoOther(t *testing.T) {
	b := newBook(t)
	b.add(opened(1))
	for n := range 5 {
		id := fmt.Sprintf("o%d/1", n)
		b.add(accepted(fact.KindOrder, id), sending(id, 1), fact.OperationWaiting{Ref: ref(id), Attempt: 1, Reason: "later", NextAt: noon})
	}
	b.add(accepted(fact.KindRenewal, "r/1", "px_1"), sending("r/1", 1), fact.OperationWaiting{Ref: ref("r/1"), Attempt: 1, Reason: "later", NextAt: noon.Add(time.Second)})
	due, err := b.Operations.Due(t.Context(), fact.StateWaiting, fact.KindRenewal, noon.Add(time.Minute), 1)
	check(t, err)
	if got := ids(due); !slices.Equal(got, []string{"r/1"}) {
		t.Fatalf("due: %v", got)
	}
}

func TestWhatIsDueComesInOrderAndNothingEarly(t *testing.T) {
	b := newBook(t)
	b.add(opened(1))
	wait := func(id string, d time.Duration) {
		b.add(accepted(fact.KindOrder, id), sending(id, 1), fact.OperationWaiting{Ref: ref(id), Attempt: 1, Reason: "later", NextAt: noon.Add(d)})
	}
	wait("late/1", time.Hour)
	wait("first/1", time.Minute)
	wait("second/1", 2*time.Minute)
	b.add(accepted(fact.KindOrder, "never/1"), sending("never/1", 1))
	due, err := b.Operations.Due(t.Context(), fact.StateWaiting, fact.KindOrder, noon.Add(2*time.Minute), 10)
	check(t, err)
	if got := ids(due); !slices.Equal(got, []string{"first/1", "second/1"}) {
		t.Fatalf("due: %v", got)
	}
	due, err = b.Operations.Due(t.Context(), fact.StateWaiting, fact.KindOrder, noon.Add(2*time.Minute), 1)
	check(t, err)
	if got := ids(due); !slices.Equal(got, []string{"first/1"}) {
		t.Fatalf("the first of them: %v", got)
	}
	next, err := b.Operations.NextAfter(t.Context(), noon.Add(2*time.Minute))
	check(t, err)
	if next == nil || !next.Equal(noon.Add(time.Hour)) {
		t.Fatalf("next: %v", next)
	}
	if next, err = b.Operations.NextAfter(t.Context(), noon.Add(time.Hour)); err != nil || next != nil {
		t.Fatalf("after the last: %v %v", next, err)
	}
	in, err := b.Operations.OperationsIn(t.Context(), fact.StateSending, 10)
	check(t, err)
	if got := ids(in); !slices.Equal(got, []string{"never/1"}) {
		t.Fatalf("sending: %v", got)
	}
}

// Each page continues after the previous one, and has no operation that this run sent or
// accepted.
func TestWhatAnEarlierRunLeftIsReadInParts(t *testing.T) {
	b := newBook(t)
	b.add(opened(1))
	for _, id := range []string{"s1/1", "s2/1", "s3/1"} {
		b.add(accepted(fact.KindOrder, id), sending(id, 1))
	}
	b.add(accepted(fact.KindOrder, "a1/1"))
	until, _, err := b.Head(t.Context())
	check(t, err)
	b.add(sending("a1/1", 1), accepted(fact.KindOrder, "a2/1"))
	for state, want := range map[fact.State]string{fact.StateSending: "[s1/1 s2/1] [s3/1]", fact.StateAccepted: ""} {
		var parts []string
		x := tables.Left{State: state, Until: until, Limit: 2}
		for {
			part, err := b.Operations.Left(t.Context(), x)
			check(t, err)
			if len(part) == 0 {
				break
			}
			parts = append(parts, fmt.Sprint(ids(part)))
			x.After = part[len(part)-1]
		}
		if got := strings.Join(parts, " "); got != want {
			t.Errorf("%s: %s instead of %s", state, got, want)
		}
	}
	b.add(accepted(fact.KindOrder, "a3/1"))
	until, _, err = b.Head(t.Context())
	check(t, err)
	if part, err := b.Operations.Left(t.Context(), tables.Left{State: fact.StateAccepted, Until: until, Limit: 9}); err != nil || fmt.Sprint(ids(part)) != "[a2/1 a3/1]" {
		t.Errorf("%v %v", ids(part), err)
	}
}

func TestTheWindowStartsAtTheFirstAttemptPossiblyExecuted(t *testing.T) {
	b := newBook(t)
	b.add(opened(1), accepted(fact.KindOrder, "o/1"), sending("o/1", 1))
	sent := b.operation("o/1").UpdatedAt
	b.add(fact.OperationWaiting{Ref: ref("o/1"), Attempt: 1, Ambiguous: true, NextAt: noon}, sending("o/1", 2),
		fact.OperationWaiting{Ref: ref("o/1"), Attempt: 2, Ambiguous: true, NextAt: noon})
	o := b.operation("o/1")
	if o.FirstAmbiguousAt == nil || !o.FirstAmbiguousAt.Equal(sent) || o.Ambiguous != 2 || o.Attempts != 2 {
		t.Fatalf("%+v", o)
	}
	body, err := b.Operations.Sent(t.Context(), o.BodySeq)
	check(t, err)
	if body.Body != `{"of":"o/1"}` || body.Key != o.Key {
		t.Fatalf("the frozen bytes are %+v", body)
	}
}

func TestAnAttemptThatWroteNothingFreezesNoBody(t *testing.T) {
	b := newBook(t)
	b.add(opened(1), accepted(fact.KindOrder, "o/1"), sending("o/1", 1), fact.OperationUnsent{Ref: ref("o/1"), Attempt: 1, Reason: "dial", NextAt: noon})
	if o := b.operation("o/1"); o.BodySeq != 0 || o.Ambiguous != 0 || o.FirstAmbiguousAt != nil {
		t.Fatalf("%+v", o)
	}
	b.add(sending("o/1", 2), fact.OperationWaiting{Ref: ref("o/1"), Attempt: 2, Ambiguous: true, NextAt: noon}, sending("o/1", 3),
		fact.OperationUnsent{Ref: ref("o/1"), Attempt: 3, Reason: "dial", NextAt: noon})
	if o := b.operation("o/1"); o.BodySeq == 0 || o.Ambiguous != 1 {
		t.Fatalf("the bytes of an ambiguous attempt were let go: %+v", o)
	}
}

func TestTheStoredCommandComesBackWhole(t *testing.T) {
	b := newBook(t)
	b.add(history()...)
	got, err := b.Operations.Acceptance(t.Context(), "r1")
	check(t, err)
	if fmt.Sprint(got) != fmt.Sprint(accepted(fact.KindRenewal, "r1/0001", "px_1a", "px_1b")) {
		t.Fatalf("%+v", got)
	}
	refused, err := b.Operations.Rejection(t.Context(), "bad")
	check(t, err)
	if refused.Reason != "second" {
		t.Fatalf("%+v", refused)
	}
	for name, err := range map[string]error{
		"command": second(b.Operations.Command(t.Context(), "none")), "operation": second(b.Operations.Operation(t.Context(), "none/1")),
		"acceptance": second(b.Operations.Acceptance(t.Context(), "none")), "rejection": second(b.Operations.Rejection(t.Context(), "none")),
		"row": second(b.Row(t.Context(), 9999)), "proxy": second(b.Fleet.Proxy(t.Context(), "none")), "slot": second(b.Sweeps.LastSlot(t.Context(), "none")),
	} {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("an unknown %s: %v", name, err)
		}
	}
	recent, err := b.Operations.AcceptedBefore(t.Context(), 0, 2)
	check(t, err)
	more, err := b.Operations.AcceptedBefore(t.Context(), recent[1].Seq, 1)
	check(t, err)
	var commands []string
	for _, c := range append(recent, more...) {
		commands = append(commands, c.CommandID)
	}
	if !slices.Equal(commands, []string{"r8", "r7", "r4"}) {
		t.Errorf("the most recent are %v", commands)
	}
}

func second[T any](_ T, err error) error { return err }
