package desk

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"perennial/jobs/command"
	"perennial/jobs/inspect"
	"perennial/ledger"
	"perennial/ledger/fact"
)

var bound = fact.Binding{AccountID: "acc_1", Environment: "sandbox", BaseURL: "https://api.example.com", Currency: "USD"}

// deskOf is a desk on a ledger, without a runner.
type deskOf struct {
	*Desk
	t *testing.T
}

func newDesk(t *testing.T) *deskOf {
	t.Helper()
	l, err := ledger.Open(t.Context(), ledger.Config{Path: filepath.Join(t.TempDir(), "main.ledger.db"), Clock: time.Now})
	check(t, err)
	t.Cleanup(func() { check(t, l.Close()) })
	return &deskOf{New(Config{
		Ledger: l, Binding: func() fact.Binding { return bound }, Now: time.Now,
		Presumed: func(time.Time) fact.Presumed { return fact.Presumed{} }, MayRepeat: func(time.Time) bool { return false }, Start: func(context.Context, string) {},
	}), t}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// acceptsEach adds an accepted renewal to the ledger, with this many operations of one proxy
// each.
func (d *deskOf) acceptsEach(id string, operations int) (planned []fact.Planned) {
	d.t.Helper()
	for i := range operations {
		planned = append(planned, command.Plan(bound, fact.KindRenewal, id, fmt.Sprintf("%04d", i+1), 1, []string{fmt.Sprintf("px_%s_%d", id, i)}))
	}
	check(d.t, d.c.Ledger.Write(d.t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(fact.CommandAccepted{
			Ref: fact.Ref{CommandID: id}, Kind: fact.KindRenewal, ContentHash: "h", Content: []byte(`{}`), DurationDays: 30, Operations: planned,
		})
	}))
	return planned
}

// cancelling returns Cancel's change, preceded by a hook.
func cancelling(before func(fact.Operation)) change {
	return func(o fact.Operation, ref fact.Ref) (fact.Fact, error) {
		before(o)
		return fact.CommandCancelled{Ref: ref, By: "ada", Reason: "x"}, nil
	}
}

var cancellable = []fact.State{fact.StateHeld, fact.StateAccepted, fact.StateWaiting}

func TestWhatChangesDuringAChangeIsDecidedAgain(t *testing.T) {
	d := newDesk(t)
	ops := d.acceptsEach("keep", 3)
	ref := func(i int) fact.Ref { return fact.Ref{CommandID: "keep", OperationID: ops[i].OperationID} }
	seen := map[string]int{}
	n, err := d.each(t.Context(), "changed", target{id: "keep"}, signature{"ada", "x"}, cancelling(func(o fact.Operation) {
		if seen[o.ID]++; len(seen) > 1 || seen[o.ID] > 1 {
			return
		}
		check(t, d.c.Ledger.Write(t.Context(), func(tx *ledger.Tx) error { // two are not any more what they were read as
			return tx.Append(fact.CommandHeld{Ref: ref(1), Reason: "a limit"},
				fact.OperationSending{Ref: ref(2), Attempt: 1, Key: ops[2].Key, Body: "{}", SentAt: tx.Now(), AppID: "a"})
		}))
	}), cancellable...)
	if n != 2 || err != nil {
		t.Fatalf("%d changed, %v", n, err)
	}
	for i, want := range []fact.State{fact.StateRejected, fact.StateRejected, fact.StateSending} {
		if o, err := d.c.Ledger.Operations.Operation(t.Context(), ops[i].OperationID); err != nil || o.State != want {
			t.Errorf("%s is %s, want %s: %v", o.ID, o.State, want, err)
		}
	}
	if seen[ops[0].OperationID] != 1 || seen[ops[1].OperationID] != 2 || seen[ops[2].OperationID] != 1 {
		t.Errorf("decided %v", seen)
	}
}

func TestAChangeOfWhatNeverRestsEnds(t *testing.T) {
	d := newDesk(t)
	ops := d.acceptsEach("keep", 1)
	rounds := 0
	n, err := d.each(t.Context(), "changed", target{id: "keep"}, signature{"ada", "x"}, cancelling(func(fact.Operation) {
		rounds++
		check(t, d.c.Ledger.Write(t.Context(), func(tx *ledger.Tx) error {
			ref := fact.Ref{CommandID: "keep", OperationID: ops[0].OperationID}
			return tx.Append(fact.CommandHeld{Ref: ref, Reason: "a limit"}, fact.CommandReleased{Ref: ref, By: "bob", Reason: "go"})
		}))
	}), cancellable...)
	if _, ok := errors.AsType[*command.RefusedError](err); n != 0 || !ok || rounds != changeRounds {
		t.Errorf("%d changed in %d rounds: %v", n, rounds, err)
	}
}

// A command with thousands of operations must not block the writer for all of them.
func TestManyOperationsAreChangedInSeveralCommits(t *testing.T) {
	d := newDesk(t)
	d.acceptsEach("keep", 2*changesATime+1)
	elsewhere := d.acceptsEach("other", 1)
	decided := 0
	n, err := d.each(t.Context(), "changed", target{id: "keep"}, signature{"ada", "x"}, cancelling(func(fact.Operation) {
		if decided++; decided == changesATime+1 {
			_, err := d.Cancel(t.Context(), elsewhere[0].OperationID, "ada", "between")
			check(t, err)
		}
	}), cancellable...)
	if n != 2*changesATime+1 || err != nil {
		t.Fatalf("%d changed, %v", n, err)
	}
	var cancelled []string
	rows, err := d.c.Ledger.Rows(t.Context(), 0, 4*changesATime)
	check(t, err)
	for _, r := range rows {
		if r.Type == "command.cancelled" {
			cancelled = append(cancelled, r.Data)
		}
	}
	if !strings.Contains(cancelled[changesATime], `"between"`) {
		t.Errorf("%s does not follow the first commit", cancelled[changesATime])
	}
}

func TestRetryMakesEachOperationAgainOnce(t *testing.T) {
	d := newDesk(t)
	d.acceptsEach("keep", 3)
	cancelled := func(n int, err error) {
		t.Helper()
		if n != 3 || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
	}
	cancelled(d.Cancel(t.Context(), "keep", "ada", "x"))
	cancelled(d.Retry(t.Context(), "keep", "ada", "x"))
	if all, err := d.c.Ledger.Operations.OperationsOf(t.Context(), "keep"); err != nil || len(all) != 6 {
		t.Errorf("%d operations, %v", len(all), err)
	}
	if n, err := d.Retry(t.Context(), "keep", "ada", "x"); n != 0 || err == nil {
		t.Errorf("%d are made a third time, %v", n, err)
	}
}

// A journal may have ids that new commands cannot have. Their commands continue.
func TestAnIDThatIsRefusedNowIsReadAndWithdrawn(t *testing.T) {
	d := newDesk(t)
	const id = "keep\u3164"
	d.acceptsEach(id, 1)
	if s, err := inspect.Status(t.Context(), d.c.Ledger, id); err != nil || s.CommandID != id {
		t.Errorf("%+v %v", s, err)
	}
	if n, err := d.Cancel(t.Context(), id, "ada", "x"); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := d.Cancel(t.Context(), id, "ada\ufe0f", "x"); err == nil || !strings.Contains(err.Error(), "U+FE0F") {
		t.Errorf("a name with what cannot be seen: %v", err)
	}
	if _, err := d.c.Ledger.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}
