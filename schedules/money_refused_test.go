package schedules

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"perennial/ledger/fact"
	"perennial/schedules/plans"
)

// ended records a renewal of px_1 that ended without a charge.
func ended(t *testing.T, h *rig, n int, end func(fact.Ref) fact.Fact) {
	t.Helper()
	name := fmt.Sprintf("sweep-keepalive-%d", n)
	ref := fact.Ref{CommandID: name, OperationID: name + "/0001"}
	for _, f := range []fact.Fact{
		fact.CommandAccepted{
			Ref: fact.Ref{CommandID: name}, Kind: fact.KindRenewal, Content: json.RawMessage(`{}`), DurationDays: 30,
			Operations: []fact.Planned{{OperationID: ref.OperationID, Chunk: "0001", Generation: 1, Key: "key-" + name, ProxyIDs: []string{"px_1"}}},
		},
		fact.CommandHeld{Ref: ref, Reason: "limit"}, end(ref),
	} {
		h.append(t, f)
	}
}

// Refusals for lack of money do not count against a proxy. After the top-up the next run renews
// it, however many refusals there were.
func TestTrap69WantOfMoneyGivesNoProxyUp(t *testing.T) {
	for name, end := range map[string]func(fact.Ref) fact.Fact{
		"short of money": func(of fact.Ref) fact.Fact {
			return fact.CommandRejected{Ref: of, Code: "insufficient_wallet_balance", Reason: "the provider refused it", Attempt: 1, ShortOfMoney: true}
		},
		"cancelled": func(of fact.Ref) fact.Fact { return fact.CommandCancelled{Ref: of, By: "ada", Reason: "not now"} },
	} {
		h := newRig(t, map[string]string{"px_1": "70h", "px_2": "71h"}, keepalive())
		h.paid(t, "px_2", 300)
		held := int64(0)
		h.wallet(t, func() (int64, error) { return held, nil })
		plan := func() plans.Plan {
			p, err := h.PlanNow(t.Context(), "keepalive")
			check(t, err)
			return p
		}
		for n := range 2 * plans.MaxEndings {
			ended(t, h, n, end)
			h.watch.add(time.Hour)
		}
		want(t, name+", no money", why(plan(), "px_1"), plans.ReasonWallet)
		held = 600
		want(t, name+", money", ids(plan()), []string{"px_1", "px_2"})
		ended(t, h, 2*plans.MaxEndings, end)
		refused := plan()
		if name == "cancelled" {
			want(t, name+", just now", why(refused, "px_1"), plans.ReasonBackoff)
		} else {
			want(t, name+", refused just now", why(refused, "px_1"), plans.ReasonWallet)
			want(t, name+", and held meanwhile", refused.Shortfalls[0].Proxies, 1)
			want(t, name+", as refused", refused.Shortfalls[0].Refused, 1)
			want(t, name+", for what it costs", refused.Shortfalls[0].Missing(), fact.Sum{Cents: 300})
		}
		h.watch.add(plans.Backoff)
		before, _, err := h.Ledger.Head(t.Context())
		check(t, err)
		want(t, name+", a quarter of an hour later", ids(h.sweep(t)), []string{"px_1", "px_2"})
		rows, err := h.Ledger.Rows(t.Context(), before, 100)
		check(t, err)
		for _, row := range rows {
			if row.Type == "proxy.review" {
				t.Errorf("%s: px_1 was given up", name)
			}
		}
	}
}

// After a top-up an operator need not wait for the next attempt.
func TestASweepByHandAsksAgainForWhatTheWalletDidNotPay(t *testing.T) {
	h := newRig(t, map[string]string{"px_1": "70h", "px_2": "300h"}, keepalive())
	h.paid(t, "px_2", 300)
	h.wallet(t, func() (int64, error) { return 600, nil })
	ended(t, h, 1, func(of fact.Ref) fact.Fact {
		return fact.CommandRejected{Ref: of, Code: "insufficient_wallet_balance", Reason: "the provider refused it", Attempt: 1, ShortOfMoney: true}
	})
	h.watch.add(time.Second)
	slot, err := h.PlanNow(t.Context(), "keepalive")
	check(t, err)
	want(t, "by the next slot", why(slot, "px_1"), plans.ReasonWallet)
	want(t, "by hand", ids(h.sweep(t)), []string{"px_1"})
}

// Refusals for other reasons still count, even with refusals for lack of money between them.
func TestTrap69OtherRefusalsStillGiveUp(t *testing.T) {
	h := newRig(t, map[string]string{"px_1": "70h"}, keepalive())
	h.paid(t, "px_1", 300)
	refused := func(code string) func(fact.Ref) fact.Fact {
		return func(of fact.Ref) fact.Fact { return fact.CommandRejected{Ref: of, Code: code, Reason: "no"} }
	}
	for n := range plans.MaxEndings {
		ended(t, h, 2*n, refused("insufficient_wallet_balance"))
		ended(t, h, 2*n+1, refused("unsupported_operation"))
		h.watch.add(time.Minute)
		p, err := h.PlanNow(t.Context(), "keepalive")
		check(t, err)
		if got := why(p, "px_1"); (got == plans.ReasonPerson) != (n == plans.MaxEndings-1) {
			t.Errorf("after %d: %s", n+1, got)
		}
	}
}
