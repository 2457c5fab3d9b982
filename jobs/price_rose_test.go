package jobs

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"perennial/ledger"
	"perennial/ledger/fact"
)

// oncePaid books renewals of proxies at an old price.
func (h *rig) oncePaid(cents int64, ids ...string) {
	h.t.Helper()
	for _, id := range ids {
		ref := fact.Ref{CommandID: "once-" + id, OperationID: "once-" + id + "/0001"}
		check(h.t, h.ledger.Write(h.t.Context(), func(tx *ledger.Tx) error {
			return tx.Append(
				fact.CommandAccepted{Ref: fact.Ref{CommandID: ref.CommandID}, Kind: fact.KindRenewal, Content: json.RawMessage(`{}`), DurationDays: 30,
					Operations: []fact.Planned{{OperationID: ref.OperationID, Chunk: "0001", Generation: 1, Key: "key-" + id, ProxyIDs: []string{id}}}},
				fact.OperationSending{Ref: ref, Attempt: 1, Key: "key-" + id, Body: "{}", SentAt: tx.Now(), AppID: "a", Observed: map[string]time.Time{id: tx.Now().AddDate(0, 0, -30)}},
				fact.RenewalSettled{Ref: ref, Status: "completed", Attempt: 1, Lines: fact.Lines{ChargedCents: cents, Items: []fact.Line{{ProxyID: id, State: fact.LineSucceeded, ChargedCents: cents}}}})
		}))
	}
}

// Proxies were renewed at 0.30, and the provider now charges 3.00. The first charge shows the
// new price of all proxies, so no limit is exceeded by more than one charge.
func TestAPriceThatRoseIsLearned(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		limit    int64
		commands []string
		charged  int64
	}{
		{"a ceiling", 0, []string{`{"id":"r-0","duration_days":30,"proxy_ids":["px_1","px_2","px_3","px_4","px_5","px_6"],"max_total_cents":180}`}, 300},
		{"a ceiling for two", 0, []string{`{"id":"r-0","duration_days":30,"proxy_ids":["px_1","px_2","px_3","px_4","px_5","px_6"],"max_total_cents":700}`}, 300},
		{"a limit of the day", 1100, []string{`{"id":"r-0","duration_days":30,"proxy_ids":["px_1","px_2","px_3","px_4","px_5","px_6"]}`}, 900},
		{"a limit of the day, one after another", 1100, nil, 900},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := idleRig(t, func(x *Config) { x.DailyLimitCents, x.Concurrency = c.limit, 1 })
			h.oncePaid(30, "px_1", "px_2", "px_3", "px_4", "px_5", "px_6")
			before, err := h.ledger.Money.Balance(t.Context(), "main")
			check(t, err)
			h.start()
			commands := c.commands
			for n := range 6 - 6*len(commands) {
				commands = append(commands, fmt.Sprintf(`{"id":"r-%d","duration_days":30,"proxy_ids":["px_%d"]}`, n, n+1))
			}
			for n, text := range commands {
				h.renew(text)
				h.await(fmt.Sprintf("r-%d", n), fact.StateCompleted, fact.StateRejected, fact.StateHeld, fact.StatePartial)
			}
			h.until("all has ended or is held", func() bool {
				all, err := h.ledger.Operations.StateCounts(t.Context())
				check(t, err)
				return all[fact.StateAccepted]+all[fact.StateSending]+all[fact.StateWaiting] == 0
			})
			after, err := h.ledger.Money.Balance(t.Context(), "main")
			check(t, err)
			if got := after.ChargedCents - before.ChargedCents; got != c.charged {
				t.Errorf("%d cents were charged", got)
			}
			want := fact.OperationOverran{EstimateCents: 30, ChargedCents: 300}
			all := h.facts("operation.overran")
			if len(all) != 1 {
				t.Fatalf("%d operations overran: %+v", len(all), all)
			}
			if x, _ := all[0].(fact.OperationOverran); x.EstimateCents != want.EstimateCents || x.ChargedCents != want.ChargedCents {
				t.Errorf("%+v", x)
			}
		})
	}
}
