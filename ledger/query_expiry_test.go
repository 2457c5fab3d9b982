package ledger

import (
	"fmt"
	"testing"
	"time"

	"perennial/ledger/fact"
)

func TestSQLComparesExpiriesAsFactsDo(t *testing.T) {
	if want := fmt.Sprintf(" < %d ", fact.ExpiryTolerance.Microseconds()); isNoMove != want {
		t.Errorf("%q and not %q", isNoMove, want)
	}
}

// A list and a detail show one expiry with different precision. Warnings, reviews, endings
// and moves depend on the expiry, not on its precision.
func TestTrap70TwoReadingsOfOneExpiryAreOne(t *testing.T) {
	b := newBook(t)
	exact := noon.Add(30*time.Hour + 59*time.Minute + 59*time.Second)
	day := exact.Truncate(24 * time.Hour)
	ended := accepted(fact.KindRenewal, "r/0001", "px_1")
	failed := fact.CommandRejected{Ref: ref("r/0001"), Code: "proxy_not_found"}
	b.add(opened(1000), ended, fact.OperationSending{
		Ref: ref("r/0001"), Attempt: 1, Key: "k", Body: "{}", SentAt: noon, Observed: map[string]time.Time{"px_1": exact},
	}, failed, fact.ProxyReview{Ref: ref("r/0001"), ProxyID: "px_1", ExpiresAt: day, Endings: 5, Reason: "often"},
		fact.ProxyExpiring{ProxyID: "px_1", ExpiresAt: day, ThresholdSeconds: 86400})
	for _, shown := range []time.Time{day, exact, exact.Truncate(time.Minute), day} {
		b.observe(1, noon, Proxy{ProxyID: "px_1", ExpiresAt: &shown})
		if e, err := b.EndingsWithoutRenewal(t.Context(), "px_1", shown); err != nil || e.All != 1 {
			t.Errorf("%s: %+v (%v)", shown, e, err)
		}
		if warn, err := b.Unwarned(t.Context(), noon, noon.Add(48*time.Hour), 24*time.Hour, 10); err != nil || len(warn) != 0 {
			t.Errorf("%s: warned of again: %+v (%v)", shown, warn, err)
		}
		if n, err := b.CountReviews(t.Context()); err != nil || n != 1 {
			t.Errorf("%s: %d reviews (%v)", shown, n, err)
		}
		check(t, b.Write(t.Context(), func(tx *Tx) error {
			if waits, err := tx.InSweepReview("px_1", shown); err != nil || !waits {
				t.Errorf("%s: asked about again (%v)", shown, err)
			}
			return nil
		}))
	}
	if moved, err := b.MovedOutside(t.Context()); err != nil || len(moved) != 0 {
		t.Errorf("%+v (%v)", moved, err)
	}
	renewed := exact.AddDate(0, 0, 30)
	b.observe(1, noon, Proxy{ProxyID: "px_1", ExpiresAt: &renewed})
	if moved, err := b.MovedOutside(t.Context()); err != nil || len(moved) != 1 {
		t.Errorf("a move of 30 days: %+v (%v)", moved, err)
	}
	if n, err := b.CountReviews(t.Context()); err != nil || n != 0 {
		t.Errorf("renewed by hand: %d reviews (%v)", n, err)
	}
}
