package jobs

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"perennial/jobs/command"
	"perennial/ledger"
	"perennial/ledger/fact"
)

// throttleRenewals answers the next renewal with a Retry-After of an hour.
func (h *rig) throttleRenewals() {
	h.fault(renew, "code", map[string]any{"code": "rate_limited", "http_status": http.StatusTooManyRequests, "retry_after": "3600"})
}

func TestCancelWithdrawsWhatTheProviderSurelyDidNotExecute(t *testing.T) {
	t.Parallel()
	h := idleRig(t)
	h.throttleRenewals()
	h.start()
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1"]}`)
	h.await("keep", fact.StateWaiting)
	h.awaitFact("account.paused")
	if n, err := h.runner.Cancel(t.Context(), "keep", "ada", "no longer needed"); n != 1 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	h.resumes("ada", "go on")
	h.renew(`{"id":"next","duration_days":30,"proxy_ids":["px_1"]}`) // the proxy is free again
	h.await("next", fact.StateCompleted)
	h.await("keep", fact.StateRejected)
	h.settled(300, 0)
}

func TestCancelLeavesWhatMayHaveExecuted(t *testing.T) {
	t.Parallel()
	h := idleRig(t)
	h.fault(renew, "drop_after", nil)
	h.throttleRenewals()
	h.start()
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1"]}`)
	h.awaitFact("account.paused")
	h.await("keep", fact.StateWaiting)
	var refused *command.RefusedError
	if n, err := h.runner.Cancel(t.Context(), "keep", "ada", "no longer needed"); n != 0 || !errors.As(err, &refused) || !strings.Contains(err.Error(), "cannot be withdrawn") {
		t.Fatalf("%d, %v", n, err)
	}
	h.resumes("ada", "go on")
	h.await("keep", fact.StateCompleted)
	h.settled(300, 0)
}

// acceptsEach puts a renewal into the ledger of as many operations, of one proxy each.
func (h *rig) acceptsEach(id string, operations int) (planned []fact.Planned) {
	h.t.Helper()
	for i := range operations {
		planned = append(planned, command.Plan(h.runner.Binding(), fact.KindRenewal, id, fmt.Sprintf("%04d", i+1), 1, []string{fmt.Sprintf("px_%s_%d", id, i)}))
	}
	check(h.t, h.ledger.Write(h.t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(fact.CommandAccepted{
			Ref: fact.Ref{CommandID: id}, Kind: fact.KindRenewal, ContentHash: "h", Content: []byte(`{}`), DurationDays: 30, Operations: planned,
		})
	}))
	return planned
}

// cancelling is what Cancel decides, after a hook.
func cancelling(before func(fact.Operation)) change {
	return func(o fact.Operation, ref fact.Ref) (fact.Fact, error) {
		before(o)
		return fact.CommandCancelled{Ref: ref, By: "ada", Reason: "x"}, nil
	}
}

var cancellable = []fact.State{fact.StateHeld, fact.StateAccepted, fact.StateWaiting}

func TestWhatChangesDuringAChangeIsDecidedAgain(t *testing.T) {
	h := idleRig(t)
	ops := h.acceptsEach("keep", 3)
	ref := func(i int) fact.Ref { return fact.Ref{CommandID: "keep", OperationID: ops[i].OperationID} }
	seen := map[string]int{}
	n, err := h.runner.each(t.Context(), target{id: "keep"}, signature{"ada", "x"}, cancelling(func(o fact.Operation) {
		if seen[o.ID]++; len(seen) > 1 || seen[o.ID] > 1 {
			return
		}
		check(t, h.ledger.Write(t.Context(), func(tx *ledger.Tx) error { // two are not any more what they were read as
			return tx.Append(fact.CommandHeld{Ref: ref(1), Reason: "a limit"},
				fact.OperationSending{Ref: ref(2), Attempt: 1, Key: ops[2].Key, Body: "{}", SentAt: tx.Now(), AppID: "a"})
		}))
	}), cancellable...)
	if n != 2 || err != nil {
		t.Fatalf("%d changed, %v", n, err)
	}
	for i, want := range []fact.State{fact.StateRejected, fact.StateRejected, fact.StateSending} {
		if o, err := h.ledger.Operation(t.Context(), ops[i].OperationID); err != nil || o.State != want {
			t.Errorf("%s is %s, want %s: %v", o.ID, o.State, want, err)
		}
	}
	if seen[ops[0].OperationID] != 1 || seen[ops[1].OperationID] != 2 || seen[ops[2].OperationID] != 1 {
		t.Errorf("decided %v", seen)
	}
}

func TestAChangeOfWhatNeverRestsEnds(t *testing.T) {
	h := idleRig(t)
	ops := h.acceptsEach("keep", 1)
	rounds := 0
	n, err := h.runner.each(t.Context(), target{id: "keep"}, signature{"ada", "x"}, cancelling(func(fact.Operation) {
		rounds++
		check(t, h.ledger.Write(t.Context(), func(tx *ledger.Tx) error {
			ref := fact.Ref{CommandID: "keep", OperationID: ops[0].OperationID}
			return tx.Append(fact.CommandHeld{Ref: ref, Reason: "a limit"}, fact.CommandReleased{Ref: ref, By: "bob", Reason: "go"})
		}))
	}), cancellable...)
	if _, ok := errors.AsType[*command.RefusedError](err); n != 0 || !ok || rounds != changeRounds {
		t.Errorf("%d changed in %d rounds: %v", n, rounds, err)
	}
}

// A command of thousands does not hold up the writer for all of them at once.
func TestManyOperationsAreChangedInSeveralCommits(t *testing.T) {
	h := idleRig(t)
	h.acceptsEach("keep", 2*changesATime+1)
	elsewhere := h.acceptsEach("other", 1)
	decided := 0
	n, err := h.runner.each(t.Context(), target{id: "keep"}, signature{"ada", "x"}, cancelling(func(fact.Operation) {
		if decided++; decided == changesATime+1 {
			_, err := h.runner.Cancel(t.Context(), elsewhere[0].OperationID, "ada", "between")
			check(t, err)
		}
	}), cancellable...)
	if n != 2*changesATime+1 || err != nil {
		t.Fatalf("%d changed, %v", n, err)
	}
	cancelled := h.facts("command.cancelled")
	if f, ok := cancelled[changesATime].(fact.CommandCancelled); !ok || f.Reason != "between" {
		t.Errorf("%+v does not stand behind the first commit", cancelled[changesATime])
	}
}

func TestRetryMakesEachOperationAgainOnce(t *testing.T) {
	h := idleRig(t)
	h.acceptsEach("keep", 3)
	cancelled := func(n int, err error) {
		t.Helper()
		if n != 3 || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
	}
	cancelled(h.runner.Cancel(t.Context(), "keep", "ada", "x"))
	cancelled(h.runner.Retry(t.Context(), "keep", "ada", "x"))
	if all, err := h.ledger.OperationsOf(t.Context(), "keep"); err != nil || len(all) != 6 {
		t.Errorf("%d operations, %v", len(all), err)
	}
	if n, err := h.runner.Retry(t.Context(), "keep", "ada", "x"); n != 0 || err == nil {
		t.Errorf("%d are made a third time, %v", n, err)
	}
}
