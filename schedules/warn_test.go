package schedules

import (
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
)

// told lists the warnings in the journal after a row, in order.
func (h *rig) told(t testing.TB, after int64) (all []string) {
	t.Helper()
	rows, err := h.Ledger.Rows(t.Context(), after, 10_000)
	check(t, err)
	for _, r := range rows {
		var f fact.ProxyExpiring
		if r.Type == "proxy.expiring" || r.Type == "proxy.expired" {
			check(t, json.Unmarshal([]byte(r.Data), &f))
			all = append(all, fmt.Sprintf("%s %s %ds", r.Type, f.ProxyID, f.ThresholdSeconds))
		}
	}
	return all
}

func (h *rig) open(t testing.TB) {
	t.Helper()
	check(t, h.Ledger.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(fact.LedgerOpened{AccountID: "acc", Environment: "sandbox", BaseURL: "http://127.0.0.1:1", Currency: "USD", OpeningCents: 1_000_000, Epoch: "e"})
	}))
}

func TestEveryExpiryIsToldOncePerThreshold(t *testing.T) {
	h := newRig(t, map[string]string{"px_1": "24h", "px_2": "26h", "px_far": "100h", "px_never": ""}, keepalive())
	h.open(t)
	look := func(what string, after time.Duration, expected ...string) {
		t.Helper()
		h.watch.add(after)
		before, _, err := h.Ledger.Head(t.Context())
		check(t, err)
		check(t, h.Warn(t.Context()))
		want(t, what, h.told(t, before), expected)
	}
	check(t, h.lister.WaitPass(t.Context()))
	look("at noon", 0, "proxy.expiring px_1 86400s")
	look("again", 0)
	h.restart(t)
	look("after a restart", 0)
	look("two hours later", 2*time.Hour, "proxy.expiring px_2 86400s")
	look("the last hour of one", 21*time.Hour+30*time.Minute, "proxy.expiring px_1 3600s")
	look("one has expired", 30*time.Minute, "proxy.expired px_1 0s")
	look("both are, after an outage", 5*time.Hour, "proxy.expired px_2 0s")
	look("and later", 24*time.Hour)
}

func TestWhatExpiredBeforeTheAccountWasBoundIsNoNews(t *testing.T) {
	h := newRig(t, nil, keepalive())
	check(t, h.Warn(t.Context())) // there is no account yet
	h.open(t)
	old, recent := noon.Add(-time.Minute), noon.Add(time.Minute)
	check(t, h.Ledger.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Observe(1, tables.Proxy{ProxyID: "px_old", ExpiresAt: &old, SeenAt: noon}, tables.Proxy{ProxyID: "px_recent", ExpiresAt: &recent, SeenAt: noon})
	}))
	h.watch.add(time.Hour)
	check(t, h.Warn(t.Context()))
	want(t, "told", h.told(t, 0), []string{"proxy.expired px_recent 0s"})
}

func TestARunningSweeperWarnsOfWhatIsNotRenewed(t *testing.T) {
	yearly := keepalive()
	yearly.Cron = "@yearly"
	inBubble(t, yearly, map[string]time.Duration{"px_1": 24*time.Hour + 10*time.Minute}, func(t *testing.T, b *bench) {
		check(t, b.Ledger.Write(t.Context(), func(tx *ledger.Tx) error {
			return tx.Append(fact.LedgerOpened{AccountID: "acc", Environment: "sandbox", BaseURL: "http://127.0.0.1:1", Currency: "USD", Epoch: "e"})
		}))
		synctest.Wait() // the schedule has recorded the instant from which it counts
		seq, _, err := b.Ledger.Head(t.Context())
		check(t, err)
		began := time.Now()
		<-b.Ledger.Changed(seq)
		if waited := time.Since(began); waited < 10*time.Minute || waited > 12*time.Minute {
			t.Fatalf("told after %s", waited)
		}
	})
}

func TestAThresholdBelowAMinuteIsRefused(t *testing.T) {
	h := newRig(t, nil)
	c := h.config
	c.WarnBefore = []time.Duration{time.Hour, time.Second}
	if _, err := New(c); err == nil {
		t.Fatal("accepted")
	}
}
