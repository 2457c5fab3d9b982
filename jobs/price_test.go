package jobs

import (
	"testing"
	"time"

	"perennial/jobs/command"
	"perennial/jobs/decide"
	"perennial/ledger"
	"perennial/ledger/fact"
)

// The renewal that shows the price settles between two reads of another operation's check
// against the daily limit. By then, no price is unknown.
func TestTrap52APriceBecomesKnownDuringTheComparison(t *testing.T) {
	h := idleRig(t)
	var between func()
	h.bind(func(c *Config) {
		c.DailyLimitCents = 700
		c.Clock = func() time.Time {
			if do := between; do != nil {
				between = nil
				do()
			}
			return h.now()
		}
	})
	first := h.accepts(`{"id":"r-1","duration_days":30,"proxy_ids":["px_1"]}`)
	second := h.accepts(`{"id":"r-2","duration_days":30,"proxy_ids":["px_2"]}`)
	ref := fact.Ref{CommandID: "r-1", OperationID: first.OperationID}
	check(t, h.ledger.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(fact.OperationSending{Ref: ref, Attempt: 1, Key: first.Key, Body: "{}", SentAt: tx.Now(), AppID: "a"})
	}))
	between = func() {
		lines := fact.Lines{ChargedCents: 300, Items: []fact.Line{{ProxyID: "px_1", State: fact.LineSucceeded, ChargedCents: 300}}}
		check(t, h.ledger.Write(t.Context(), func(tx *ledger.Tx) error {
			return tx.Append(fact.RenewalSettled{Ref: ref, Status: "completed", Attempt: 1, Lines: lines})
		}))
	}
	op, err := h.ledger.Operations.Operation(t.Context(), second.OperationID)
	check(t, err)
	j := h.runner.job(op, command.Command{ID: "r-2", Kind: fact.KindRenewal, DurationDays: 30}, []string{"px_2"})
	d, err := h.runner.pricing.again(t.Context(), j, &checked{ids: []string{"px_2"}, priced: decide.Priced{LimitCents: 700}})
	check(t, err)
	if !d.Send || d.Estimate != fact.Known(300) {
		t.Errorf("it is sent at %+v: %+v", d.Estimate, d)
	}
}
