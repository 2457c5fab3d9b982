package jobs

import (
	"errors"
	"testing"

	"perennial/jobs/command"
	"perennial/ledger/fact"
)

func TestARecordThatIsRepeatedUnderItsIDBooksOnce(t *testing.T) {
	h := idleRig(t)
	x := Recording{Kind: "top-up", Cents: 500, ID: "wire-7", By: "ada", Reason: "wire transfer"}
	for n := range 3 {
		booked, err := Record(t.Context(), h.ledger, x)
		if check(t, err); booked != (n == 0) {
			t.Errorf("call %d booked: %t", n, booked)
		}
	}
	x.Cents = 600
	var refused *command.RefusedError
	if booked, err := Record(t.Context(), h.ledger, x); booked || !errors.As(err, &refused) {
		t.Errorf("another amount under the same id: %v", err)
	}
	x.ID = "wire-8"
	_, err := Record(t.Context(), h.ledger, x)
	check(t, err)
	if n := len(h.facts("ledger.recorded")); n != 2 {
		t.Errorf("%d records are booked", n)
	}
	if _, err := h.ledger.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestARecordThatTakesTheWalletBelowZeroSaysSo(t *testing.T) {
	h := idleRig(t)
	b, err := h.ledger.Balance(t.Context(), "main")
	check(t, err)
	for _, test := range []struct {
		kind  string
		cents int64
		warns bool
	}{{"external", b.WalletCents, false}, {"external", 1, true}, {"external", 5, true}, {"top-up", 1, false}, {"top-up", 5, false}, {"external", 1, true}} {
		x := Recording{Kind: test.kind, Cents: test.cents, By: "ada", Reason: "x"}
		_, err := Record(t.Context(), h.ledger, x)
		check(t, err)
		if warning, err := Overdrawn(t.Context(), h.ledger, x); err != nil || (warning != "") != test.warns {
			t.Errorf("%+v: %q %v", test, warning, err)
		}
	}
}

// What is paid for and not settled shows in the balance, as an estimate.
func TestTrap58WhatIsNotBookedYetShowsInTheBalance(t *testing.T) {
	t.Parallel()
	h := movableRig(t)
	h.hangs("buy")
	p, err := h.ledger.Position(t.Context(), "main")
	check(t, err)
	if u := p.WithUnbooked().Unbooked; u == nil || u.Operations != 1 || u.Unknown != 1 {
		t.Errorf("%+v", u)
	}
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1"]}`)
	h.await("keep", fact.StateCompleted)
	p, err = h.ledger.Position(t.Context(), "main")
	check(t, err)
	if u := p.WithUnbooked().Unbooked; u.Operations != 1 {
		t.Errorf("what is booked counts again: %+v", u)
	}
}
