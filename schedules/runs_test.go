package schedules

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
)

// The canary's renewal and the renewals after it are one run, and none counts twice.
func TestARunCountsItsContinuations(t *testing.T) {
	s := dailySchedule()
	s.BudgetCents = 600
	inBubble(t, s, threeUnpriced(), func(t *testing.T, b *bench) {
		<-b.stream.arrived
		time.Sleep(time.Second)
		settle(t, b.Ledger, b.stream.commands[0], 300)
		<-b.stream.arrived
		time.Sleep(time.Second)
		settle(t, b.Ledger, b.stream.commands[1], 300)
		for _, limit := range []int{20, 1} { // the limit does not split a run
			all, err := Runs(t.Context(), b.Ledger, "keepalive", limit)
			check(t, err)
			want(t, "runs", len(all), 1)
			r := all[0]
			want(t, "slots", len(r.Slots), 2)
			want(t, "due, renewed, skipped, charged", []int64{*r.Due, r.Renewed, r.Skipped, r.ChargedCents}, []int64{3, 2, 1, 600})
			want(t, "outcome", r.Outcome, tables.OutcomeOverBudget)
		}
		list, err := b.List(t.Context())
		check(t, err)
		r := list[0].Result
		want(t, "of the list", []int64{*r.Due, r.Renewed, r.Skipped, r.ChargedCents}, []int64{3, 2, 1, 600})
	})
}

// Without the count, a proxy of the run would be neither renewed nor skipped.
func TestARunCountsTheRenewalsThatFailed(t *testing.T) {
	h := newRig(t, map[string]string{"px_1": "24h", "px_2": "25h"}, keepalive())
	h.sweep(t)
	settleAs(t, h.Ledger, h.stream.commands[0], "failed", fact.LineFailed, 0)
	list, err := h.List(t.Context())
	check(t, err)
	r := list[0].Result
	want(t, "due, renewed, failed, skipped", []int64{*r.Due, r.Renewed, r.Failed, r.Skipped}, []int64{2, 0, 1, 1})
	if !strings.HasPrefix(list[0].Reason(), "1 renewal failed") {
		t.Error(list[0].Reason())
	}
}

func TestARunCountsItsReviews(t *testing.T) {
	h := newRig(t, map[string]string{"px_1": "24h"}, keepalive())
	h.sweep(t)
	c := h.stream.commands[0]
	ref := fact.Ref{CommandID: c.ID, OperationID: c.ID + "/0001"}
	check(t, h.Ledger.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(
			fact.CommandAccepted{Ref: fact.Ref{CommandID: c.ID}, Kind: fact.KindRenewal, ContentHash: "h", Content: json.RawMessage(`{}`), DurationDays: 30,
				Operations: []fact.Planned{{OperationID: ref.OperationID, Chunk: "0001", Generation: 1, Key: "key", ProxyIDs: c.ProxyIDs}}},
			fact.OperationSending{Ref: ref, Attempt: 1, Key: "key", Body: "{}", SentAt: tx.Now()},
			fact.OperationReview{Ref: ref, Attempt: 1, Ambiguous: true, Reason: "pending"})
	}))
	list, err := h.List(t.Context())
	check(t, err)
	want(t, "renewed, failed, in review", []int64{list[0].Result.Renewed, list[0].Result.Failed, list[0].Result.InReview}, []int64{0, 0, 1})
	want(t, "why", list[0].Reason(), `1 renewal is in review ("px_1")`)
}
