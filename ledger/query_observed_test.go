package ledger

import (
	"context"
	"testing"
	"time"

	"perennial/ledger/fact"
)

// A renewal always counts for the expiry that it paid for. If that expiry is unknown or
// differs from the shown one, the renewal counts while reads may lag.
func TestTrap45WhatWasPaidForCountsWhateverIsShown(t *testing.T) {
	const day = 24 * time.Hour
	soon := noon.Add(day)
	for name, test := range map[string]struct {
		observed     *time.Time
		shown        time.Time
		after        time.Duration // the renewal
		paid, behind bool
	}{
		"known, and shown":             {&soon, soon, 100 * day, true, false},
		"known, and another is shown":  {&soon, soon.Add(day), time.Minute, true, true},
		"known, another, an hour on":   {&soon, soon.Add(day), time.Hour, false, false},
		"known, and moved as paid for": {&soon, soon.Add(30 * day), time.Minute, false, false},
		"not known, and due":           {nil, soon, time.Minute, true, true},
		"not known, and moved":         {nil, noon.Add(30 * day), time.Minute, false, false},
		"not known, an hour on":        {nil, soon, time.Hour, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBook(t)
			sent := sending("r/0001", 1)
			if test.observed != nil {
				sent.Observed = map[string]time.Time{"px_1": *test.observed}
			}
			b.add(opened(5000), accepted(fact.KindRenewal, "r/0001", "px_1"), sent, settled("r/0001", "completed", line("px_1", "succeeded", 300, 0)))
			last, err := b.Fleet.LastRenewal(context.Background(), "px_1")
			check(t, err)
			paid, behind, err := b.Fleet.PaidFor(context.Background(), "px_1", test.shown, last.SettledAt.Add(test.after))
			check(t, err)
			if paid != test.paid || (behind != nil) != test.behind {
				t.Errorf("paid %t, behind %+v", paid, behind)
			}
		})
	}
}
