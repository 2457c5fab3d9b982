package jobs

import (
	"testing"

	"perennial/jobs/command"
	"perennial/jobs/decide"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/upstream"
)

// An order comes due and is queued again while it is being read. The second read finds it
// delivered, which is not a finding.
func TestASecondReadOfADeliveredOrderIsNoFinding(t *testing.T) {
	for person, findings := range map[bool]int{false: 0, true: 1} {
		h := idleRig(t)
		c, err := command.Parse(fact.KindOrder, []byte(`{"id":"buy","duration_days":30,"items":[{"offer_code":"off_us_1","quantity":1}]}`), rulesOfSandbox)
		check(t, err)
		content, hash, err := c.Content()
		check(t, err)
		planned := c.Operations(h.runner.Binding(), nil, false)[0]
		ref := fact.Ref{CommandID: "buy", OperationID: planned.OperationID}
		check(t, h.ledger.Write(t.Context(), func(tx *ledger.Tx) error {
			return tx.Append(fact.CommandAccepted{Ref: fact.Ref{CommandID: "buy"}, Kind: c.Kind, ContentHash: hash, Content: content, DurationDays: 30, Operations: []fact.Planned{planned}},
				fact.OperationSending{Ref: ref, Attempt: 1, Key: planned.Key, Body: "{}", SentAt: tx.Now(), AppID: "sbx_app_demo"},
				fact.OrderAccepted{Ref: ref, Attempt: 1, OrderNo: "ord_1", NextAt: tx.Now()})
		}))
		record, err := h.ledger.Operations.Operation(t.Context(), planned.OperationID)
		check(t, err)
		first, err := h.runner.load(t.Context(), record)
		check(t, err)
		second, err := h.runner.load(t.Context(), record)
		check(t, err)
		total := int64(300)
		read := decide.OrderRead{Moment: h.runner.moment(), Order: upstream.Order{
			OrderSummary: upstream.OrderSummary{OrderNo: "ord_1", TotalCents: &total, Currency: "USD"}, Proxies: []upstream.Proxy{{ProxyID: "px_new"}},
			Delivery: upstream.Delivery{ExpectedCount: 1, DeliveredCount: 1, Complete: true, Available: true, Present: true},
		}}
		if person {
			check(t, h.ledger.Write(t.Context(), func(tx *ledger.Tx) error {
				return tx.Append(fact.OperationReview{Ref: ref, Reason: "lost"}, fact.OperationResolved{Ref: ref, By: "ada", Reason: "x", Outcome: "not_charged"})
			}))
		} else {
			check(t, h.runner.conclude(t.Context(), first, decide.Decide(first.op, read)))
		}
		check(t, h.runner.conclude(t.Context(), second, decide.Decide(second.op, read)))
		if found := h.facts("ledger.discrepancy"); len(found) != findings {
			t.Errorf("a person answered: %t: %+v", person, found)
		}
	}
}
