package jobs

import (
	"errors"
	"strings"
	"testing"

	"perennial/jobs/command"
	"perennial/jobs/desk"
	"perennial/ledger/fact"
)

// unconfirmed fails the test unless the answer is refused as a possible mistake, for this
// reason.
func (h *rig) unconfirmed(x desk.Resolution, why string) {
	h.t.Helper()
	var refused *command.RefusedError
	if err := h.runner.Resolve(h.t.Context(), x); !errors.As(err, &refused) || !refused.Unconfirmed || !strings.Contains(refused.Reason, why) {
		h.t.Errorf("%+v: %v", x, err)
	}
}

// Up to twice the expected amount is booked without confirmation; a higher amount, or more
// than the wallet has, is not.
func TestAnAmountThatLooksLikeASlipIsRepeated(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.fault(renew, "renewal", map[string]any{"unresolved": []string{"px_1", "px_2"}})
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1","px_2"]}`)
	h.await("keep", fact.StatePartial, fact.StateReview)
	answer := func(cents int64) desk.Resolution {
		return desk.Resolution{ID: "keep/0001", ProxyID: "px_1", Charged: new(true), ChargedCents: cents, By: "ada", Reason: "the invoice"}
	}
	before, err := h.ledger.Money.Balance(t.Context(), "main")
	check(t, err)
	other := answer(200)
	other.ConfirmCents = new(int64(20))
	if err := h.runner.Resolve(t.Context(), other); err == nil || !strings.Contains(err.Error(), "repeat the amount") {
		t.Errorf("two amounts: %v", err)
	}
	if after, err := h.ledger.Money.Balance(t.Context(), "main"); err != nil || after.ChargedCents != before.ChargedCents {
		t.Errorf("a refused answer books: %+v and %+v, %v", before, after, err)
	}
	h.unconfirmed(answer(3), "3.00 USD is expected")
	h.unconfirmed(answer(301), "in suspense")
	check(t, h.runner.Resolve(t.Context(), answer(300)))
	dearer := answer(310)
	dearer.ProxyID, dearer.ConfirmCents = "px_2", new(int64(310))
	check(t, h.runner.Resolve(t.Context(), dearer))
	if after, err := h.ledger.Money.Balance(t.Context(), "main"); err != nil || after.ChargedCents != before.ChargedCents+10 || after.SuspenseCents != 0 {
		t.Errorf("over the suspense: %+v, %v", after, err)
	}

	h.fault(orders, "unresolved_record", map[string]any{"executed": false})
	h.order(`{"id":"none","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":2}],"max_total_cents":600}`)
	none := h.await("none", fact.StateReview).Operations[0].OperationID
	h.unconfirmed(desk.Resolution{ID: none, Charged: new(true), ChargedCents: 60000, By: "ada", Reason: "dollars for cents"}, "6.00 USD is expected")

	h.fault(orders, "unresolved_record", map[string]any{"executed": true})
	h.order(`{"id":"buy","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":2}],"max_total_cents":600}`)
	id := h.await("buy", fact.StateReview).Operations[0].OperationID
	slip := desk.Resolution{ID: id, Charged: new(true), ChargedCents: 60000, By: "ada", Reason: "dollars for cents"}
	h.unconfirmed(slip, "--confirm-amount 600.00")
	slip.ChargedCents = 1 << 40
	h.unconfirmed(slip, "--confirm-amount")
	slip.ChargedCents, slip.ConfirmCents = 1201, new(int64(1201))
	check(t, h.runner.Resolve(t.Context(), slip))

	h.fault(orders, "unresolved_record", map[string]any{"executed": true})
	h.order(`{"id":"found","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":3}]}`)
	id = h.await("found", fact.StateReview).Operations[0].OperationID
	h.unconfirmed(desk.Resolution{ID: id, Charged: new(true), ChargedCents: 890, By: "ada", Reason: "the invoice"}, "add --order")
	check(t, h.runner.Resolve(t.Context(), desk.Resolution{ID: id, Charged: new(true), ChargedCents: 900, By: "ada", Reason: "the invoice"}))
	if o, err := h.ledger.Operations.Operation(t.Context(), id); err != nil || o.OrderNo == "" {
		t.Errorf("the order that the evidence names is not taken: %+v, %v", o, err)
	}
}

// An expiry moved, but the operator answers that nothing was charged and sends the renewal
// again, which would pay twice.
func TestAnAnswerAgainstTheEvidenceIsSaidTwice(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.fault(renew, "unresolved_record", map[string]any{"executed": true})
	due := h.now().AddDate(1, 0, 0).Format("2006-01-02T15:04:05Z")
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1"],"due_before":"` + due + `"}`)
	id := h.await("keep", fact.StateReview).Operations[0].OperationID
	x := desk.Resolution{ID: id, Charged: new(false), SendAgain: true, By: "ada", Reason: "it looks so"}
	h.unconfirmed(x, "px_1 expires")
	x.SendAgain = false
	h.unconfirmed(x, "--against-evidence")
	x.AgainstEvidence = true
	check(t, h.runner.Resolve(t.Context(), x))

	h.fault(orders, "unresolved_record", map[string]any{"executed": true})
	h.order(`{"id":"buy","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":2}]}`)
	bought := h.await("buy", fact.StateReview).Operations[0].OperationID
	h.unconfirmed(desk.Resolution{ID: bought, Charged: new(false), SendAgain: true, By: "ada", Reason: "it looks so"}, "no other operation explains it")
}
