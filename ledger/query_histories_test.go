package ledger

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
	"perennial/ledger/tables"
)

func (b *book) failedRenewals(id string, shown time.Time, excused ...string) tables.FailedRenewals {
	b.t.Helper()
	all, err := b.Operations.Histories(b.t.Context(), []tables.Proxy{{ProxyID: "px_other", ExpiresAt: &noon}, {ProxyID: id, ExpiresAt: &shown}}, noon, excused...)
	check(b.t, err)
	return all[1].Failed
}

// Reading many proxies in one call gives the results of single calls, in the same order.
func TestHistoriesOfManyProxiesAreThoseOfEach(t *testing.T) {
	b := newBook(t)
	b.add(history()...)
	ids, err := sqlite.Collect(b.query(t.Context(), `SELECT DISTINCT proxy_id FROM lines UNION SELECT 'px_new' ORDER BY 1 DESC`), sqlite.Value[string])
	check(t, err)
	var proxies []tables.Proxy
	for _, id := range ids {
		shown := []time.Time{noon}
		if last, err := b.Fleet.LastRenewal(t.Context(), id); err == nil {
			shown = append(shown, last.SettledAt, last.SettledAt.AddDate(0, 0, 31))
			if last.ObservedExpiresAt != nil {
				shown = append(shown, *last.ObservedExpiresAt)
			}
		} else if !errors.Is(err, ErrNotFound) {
			t.Fatal(err)
		}
		for _, expires := range shown {
			proxies = append(proxies, tables.Proxy{ProxyID: id, ExpiresAt: &expires})
		}
	}
	paid, behind, priced := 0, 0, 0
	for _, now := range []time.Time{noon, noon.Add(30 * time.Minute), noon.AddDate(0, 0, 20)} {
		all, err := b.Operations.Histories(t.Context(), proxies, now)
		check(t, err)
		for i, p := range proxies {
			h, err := b.Operations.Histories(t.Context(), []tables.Proxy{p}, now)
			check(t, err)
			own, err := b.Fleet.PaidPerDay(t.Context(), p.ProxyID)
			check(t, err)
			for _, is := range []bool{all[i].PaidFor != h[0].PaidFor, all[i].InVain != h[0].InVain, all[i].Failed != h[0].Failed, all[i].Paid != own} {
				if is {
					t.Errorf("%s at %s: %+v, %+v alone, and paid %+v", p.ProxyID, p.ExpiresAt, all[i], h[0], own)
				}
			}
			is, late, err := b.Fleet.PaidFor(t.Context(), p.ProxyID, *p.ExpiresAt, now)
			check(t, err)
			if is != all[i].PaidFor || (late == nil) != (all[i].Behind == nil) {
				t.Errorf("%s at %s: paid for %v, behind %v, and %+v", p.ProxyID, p.ExpiresAt, is, late, all[i])
			}
			for n, yes := range map[*int]bool{&paid: is, &behind: late != nil, &priced: own.Days > 0} {
				if yes {
					*n++
				}
			}
		}
	}
	if paid == 0 || behind == 0 || priced == 0 {
		t.Errorf("%d paid, %d behind, %d priced", paid, behind, priced)
	}
}

// Ids are opaque, so each must be found as it is. A plan that missed a payment would pay
// again.
func TestHistoriesFindAProxyWhateverItsIDHolds(t *testing.T) {
	b := newBook(t)
	ids := []string{`quote"back\slash`, "<&>'", "ü\u2028\u00a0é", "emoji 🙂 1/2", "%_?:;[]{}", "\u007f\ufffd"}
	proxies := make([]tables.Proxy, len(ids))
	for i, id := range ids {
		operation := fmt.Sprintf("r%d/0001", i)
		sent := sending(operation, 1)
		sent.Observed = map[string]time.Time{id: noon}
		b.add(accepted(fact.KindRenewal, operation, id), sent, settled(operation, "completed", line(id, "succeeded", 300, 0)))
		proxies[i] = tables.Proxy{ProxyID: id, ExpiresAt: &noon}
	}
	all, err := b.Operations.Histories(t.Context(), proxies, noon.AddDate(0, 0, 1))
	check(t, err)
	for i, h := range all {
		if !h.PaidFor || h.Paid.Cents != 300 {
			t.Errorf("the renewal of %q is not found: %+v", ids[i], h)
		}
	}
	check(t, b.Write(t.Context(), func(tx *Tx) error {
		found, err := tx.SettledSince(ids, noon.AddDate(-1, 0, 0))
		if len(found) != len(ids) {
			t.Errorf("settled: %q", found)
		}
		return err
	}))
}
