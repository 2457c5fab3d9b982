package ledger

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
	"perennial/ledger/tables"
)

func TestSQLComparesExpiriesAsFactsDo(t *testing.T) {
	if want := fmt.Sprintf(" < %d ", fact.ExpiryTolerance.Microseconds()); tables.IsNoMove != want {
		t.Errorf("%q and not %q", tables.IsNoMove, want)
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
		b.observe(1, noon, tables.Proxy{ProxyID: "px_1", ExpiresAt: &shown})
		if e := b.failedRenewals("px_1", shown); e.All != 1 {
			t.Errorf("%s: %+v", shown, e)
		}
		if warn, err := b.Fleet.Unwarned(t.Context(), noon, noon.Add(48*time.Hour), 24*time.Hour, 10); err != nil || len(warn) != 0 {
			t.Errorf("%s: warned of again: %+v (%v)", shown, warn, err)
		}
		if n, err := b.Operations.CountReviews(t.Context()); err != nil || n != 1 {
			t.Errorf("%s: %d reviews (%v)", shown, n, err)
		}
		check(t, b.Write(t.Context(), func(tx *Tx) error {
			if waits, err := tx.InSweepReview("px_1", shown); err != nil || !waits {
				t.Errorf("%s: asked about again (%v)", shown, err)
			}
			return nil
		}))
	}
	if moved, err := b.Fleet.MovedOutside(t.Context()); err != nil || len(moved) != 0 {
		t.Errorf("%+v (%v)", moved, err)
	}
	renewed := exact.AddDate(0, 0, 30)
	b.observe(1, noon, tables.Proxy{ProxyID: "px_1", ExpiresAt: &renewed})
	if moved, err := b.Fleet.MovedOutside(t.Context()); err != nil || len(moved) != 1 {
		t.Errorf("a move of 30 days: %+v (%v)", moved, err)
	}
	if n, err := b.Operations.CountReviews(t.Context()); err != nil || n != 0 {
		t.Errorf("renewed by hand: %d reviews (%v)", n, err)
	}
}

// Both indexes together give the order of the expiries that the provider shows.
func TestARenewedProxyIsDueByTheExpiryThatIsShown(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	b := newBook(t)
	check(t, b.Write(t.Context(), func(tx *Tx) error {
		for n := range 2000 {
			p := tables.Proxy{ProxyID: fmt.Sprintf("px_%04d", n), SeenAt: noon.Add(-time.Minute), ExpiresAt: at(time.Duration(random.IntN(200)-20) * time.Hour)}
			switch random.IntN(6) {
			case 0:
				p.ExpiresAt = nil
			case 1:
				p.ExpectedExpiresAt = at(time.Duration(random.IntN(1000)) * time.Hour)
			case 2:
				p.ExpiresAt, p.ExpectedExpiresAt = nil, at(time.Hour)
			}
			check(t, tx.Observe(1+int64(random.IntN(2)), p))
			if random.IntN(6) == 0 {
				check(t, tx.exec(`UPDATE proxies SET gone = 1 WHERE proxy_id = ?`, p.ProxyID))
			}
		}
		return nil
	}))
	shown := func(where string, args ...any) []string {
		t.Helper()
		ids, err := sqlite.Collect(b.query(t.Context(), `SELECT proxy_id FROM proxies NOT INDEXED WHERE `+where+` ORDER BY expires_at, proxy_id`, args...), sqlite.Value[string])
		check(t, err)
		return ids
	}
	same := func(what string, got, want []string) {
		t.Helper()
		if len(want) == 0 || !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	for _, length := range []time.Duration{time.Hour, 24 * time.Hour, 100 * time.Hour, 200 * time.Hour} {
		until := at(length)
		window := []any{sqlite.Micros(noon), sqlite.Micros(*until)}
		same("due", b.expiring(*until), shown(`gone = 0 AND expires_at <= ?`, sqlite.Micros(*until)))
		unwarned, err := b.Fleet.Unwarned(t.Context(), noon, *until, time.Hour, 5000)
		check(t, err)
		same("unwarned", proxyIDs(unwarned), shown(`gone = 0 AND expires_at > ? AND expires_at <= ?`, window...))
		expired, err := b.Fleet.UnreportedExpired(t.Context(), noon, *until, 5000)
		check(t, err)
		same("expired", proxyIDs(expired), shown(`expires_at > ? AND expires_at <= ?`, window...))
		refused, err := b.Operations.Refused(t.Context(), noon, *until, 0)
		check(t, err)
		same("refused", proxyIDs(refused), shown(`expires_at > ? AND expires_at <= ?`, window...))
	}
	var now int64
	before := shown(`gone = 0 AND expires_at IS NOT NULL`)
	check(t, b.Write(t.Context(), func(tx *Tx) error { now = tx.now; return tx.FinishPass(2, noon) }))
	same("gone", shown(`gone = 1 AND pass = 1 AND proxy_id IN (SELECT value FROM json_each(?))`, jsonOf(t, before)),
		shown(`pass = 1 AND expires_at <= ? AND proxy_id IN (SELECT value FROM json_each(?))`, now, jsonOf(t, before)))
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	check(t, err)
	return string(text)
}
