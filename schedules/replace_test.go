package schedules

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/schedules/plans"
	"perennial/upstream"
)

// replacing returns a rig whose schedule replaces proxies, with the sandbox's offers.
func replacing(t testing.TB, policy plans.Replace, expiries map[string]string) *rig {
	t.Helper()
	s := keepalive()
	s.Replace, s.Match.ExceptProxyIDs = policy, []string{"px_except"}
	h := newRig(t, expiries, s)
	h.config.Offers = h.offers(t)
	client, _ := h.config.Provider.(*upstream.Client)
	h.config.Proxy = client.Proxy
	h.restart(t)
	check(t, h.lister.WaitPass(t.Context()))
	return h
}

// offers returns a function that reads the sandbox's offers.
func (h *rig) offers(t testing.TB) func(context.Context, upstream.OfferFilter) ([]upstream.Offer, error) {
	t.Helper()
	client, ok := h.config.Provider.(*upstream.Client)
	if !ok {
		t.Fatal("the provider is no client")
	}
	return func(ctx context.Context, f upstream.OfferFilter) (all []upstream.Offer, err error) {
		for o, err := range client.Offers(ctx, f, 0) {
			if err != nil {
				return nil, err
			}
			all = append(all, o)
		}
		return all, nil
	}
}

func (h *rig) run(t testing.TB) plans.Plan {
	t.Helper()
	h.watch.add(time.Second)
	plan, err := h.RunNow(t.Context(), "keepalive", "ann", "due", nil)
	check(t, err)
	return plan
}

func TestWhatTheProviderWillNotRenewIsReplacedOnce(t *testing.T) {
	h := replacing(t, plans.Replace{Enabled: true, MaxCents: 400, After: 2}, map[string]string{"px_1": "24h", "px_2": "25h", "px_except": "26h"})
	h.paid(t, "px_2", 300)
	bought(t, h.Ledger, "px_1", map[string]string{"team": "ads"})
	for n := 1; n <= 2; n++ {
		h.run(t)
		want(t, "orders before the second failure", len(h.stream.orders), 0)
		renewal(t, h.Ledger, n, "px_1", "failed", 300, noon.Add(24*time.Hour))
		renewal(t, h.Ledger, n, "px_except", "failed", 300, noon.Add(26*time.Hour))
	}
	ended, cancel := context.WithCancel(t.Context())
	h.watch.add(time.Second)
	h.stream.fail = func() error { cancel(); return errors.New("no reply") }
	_, err := h.RunNow(ended, "keepalive", "ann", "due", nil)
	wantErr(t, err, context.Canceled)

	h.stream.fail = nil
	h.restart(t)
	plan := h.run(t)
	want(t, "orders, once it can be published", len(h.stream.orders), 1)
	got := h.stream.orders[0]
	text, err := json.Marshal(got)
	check(t, err)
	want(t, "order", string(text), `{"id":"`+got.ID+`","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":1}],`+
		`"max_total_cents":400,"labels":{"replaces":"px_1","schedule":"keepalive","team":"ads"}}`)
	want(t, "the replaced one", why(plan, "px_1"), plans.ReasonRetired)
	accept(t, h.Ledger, got.ID)
	h.run(t)
	want(t, "orders once the first was taken in", len(h.stream.orders), 1)
}

// bought records an order with labels that delivered a proxy.
func bought(t testing.TB, l *ledger.Ledger, id string, labels map[string]string) {
	t.Helper()
	ref := fact.Ref{CommandID: "buy-" + id, OperationID: "buy-" + id + "/1", Labels: labels}
	check(t, l.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(
			fact.CommandAccepted{Ref: fact.Ref{CommandID: ref.CommandID, Labels: labels}, Kind: fact.KindOrder, Content: []byte(`{}`), DurationDays: 30,
				Operations: []fact.Planned{{OperationID: ref.OperationID, Chunk: "1", Generation: 1, Key: "key-buy-" + id}}},
			fact.OperationSending{Ref: ref, Attempt: 1, Key: "key-buy-" + id, Body: "{}", SentAt: tx.Now()},
			fact.OrderAccepted{Ref: ref, Attempt: 1, OrderNo: "no-" + id, NextAt: tx.Now()},
			fact.OrderDelivered{OrderState: fact.OrderState{Ref: ref, OrderNo: "no-" + id, ExpectedCount: 1, DeliveredCount: 1, ChargedCents: 300}, ProxyIDs: []string{id}})
	}))
}

func accept(t testing.TB, l *ledger.Ledger, id string) {
	t.Helper()
	check(t, l.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(fact.CommandAccepted{Ref: fact.Ref{CommandID: id}, Kind: fact.KindOrder, Content: []byte(`{}`), DurationDays: 30})
	}))
}

func TestFailuresCountForAReplacementAfterTheWindowShrinks(t *testing.T) {
	h := replacing(t, plans.Replace{Enabled: true, MaxCents: 400, After: 2}, map[string]string{"px_1": "60h"})
	for n := range 2 {
		renewal(t, h.Ledger, n, "px_1", "failed", 300, noon.Add(60*time.Hour))
	}
	h.config.Schedules[0].RenewBefore = 48 * time.Hour
	h.restart(t)
	h.watch.add(20 * time.Hour)
	h.run(t)
	want(t, "orders", len(h.stream.orders), 1)
}

func TestAProxyUnknownToTheProviderIsReplacedAtOnce(t *testing.T) {
	h := replacing(t, plans.Replace{Enabled: true, MaxCents: 400}, map[string]string{"px_1": "24h", "px_2": "25h"})
	unknown(t, h.Ledger, "px_1")
	h.run(t)
	want(t, "orders", len(h.stream.orders), 1)
	want(t, "in the place of", h.stream.orders[0].Labels["replaces"], "px_1")
}

// unknown records a renewal that failed because the provider does not know the proxy.
func unknown(t testing.TB, l *ledger.Ledger, id string) {
	t.Helper()
	ref := fact.Ref{CommandID: "unknown-" + id, OperationID: "unknown-" + id + "/0001"}
	check(t, l.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(
			fact.CommandAccepted{Ref: fact.Ref{CommandID: ref.CommandID}, Kind: fact.KindRenewal, Content: []byte(`{}`), DurationDays: 30, Operations: []fact.Planned{
				{OperationID: ref.OperationID, Chunk: "0001", Generation: 1, Key: "key-" + id, ProxyIDs: []string{id}},
			}},
			fact.OperationSending{Ref: ref, Attempt: 1, Key: "key-" + id, Body: "{}", SentAt: tx.Now()},
			fact.CommandRejected{Ref: ref, Code: "proxy_not_found", Reason: "unknown", Attempt: 1})
	}))
}

func TestReplacementsStayWithinTheirCeilings(t *testing.T) {
	three := map[string]string{"px_1": "24h", "px_2": "25h", "px_3": "26h"}
	for name, c := range map[string]struct {
		policy plans.Replace
		orders int
	}{
		"off":                {plans.Replace{MaxCents: 400}, 0},
		"too dear":           {plans.Replace{Enabled: true, MaxCents: 299}, 0},
		"two a day":          {plans.Replace{Enabled: true, MaxCents: 400, PerDay: 2}, 2},
		"all within a day":   {plans.Replace{Enabled: true, MaxCents: 300}, 3},
		"after five, or one": {plans.Replace{Enabled: true, MaxCents: 300, After: 5}, 3},
	} {
		h := replacing(t, c.policy, three)
		for id := range three {
			unknown(t, h.Ledger, id)
		}
		h.run(t)
		h.run(t)
		seen := map[string]bool{}
		for _, o := range h.stream.orders {
			seen[o.ID] = true
		}
		want(t, name, len(seen), c.orders)
	}
}

// per_day counts only replacements. Proxies that no offer can replace do not count, and offers
// are requested once per kind.
func TestWhatNothingCanReplaceDoesNotUseUpTheDay(t *testing.T) {
	h := replacing(t, plans.Replace{Enabled: true, MaxCents: 400, PerDay: 1}, map[string]string{"px_de_1": "23h", "px_de_2": "24h", "px_1": "25h", "px_2": "26h"})
	all, asked := h.config.Offers, 0
	h.config.Offers = func(ctx context.Context, f upstream.OfferFilter) ([]upstream.Offer, error) {
		asked++
		if f.CountryCode == "DE" {
			return nil, nil
		}
		return all(ctx, f)
	}
	h.restart(t)
	for _, id := range []string{"px_de_1", "px_de_2", "px_1", "px_2"} {
		unknown(t, h.Ledger, id)
	}
	h.run(t)
	want(t, "orders", len(h.stream.orders), 1)
	want(t, "in the place of", h.stream.orders[0].Labels["replaces"], "px_1")
	want(t, "asked for offers", asked, 2)
}

// The other schedule replaces the proxy after this schedule's last check.
func TestAProxyOfTwoSchedulesIsReplacedOnce(t *testing.T) {
	h := replacing(t, plans.Replace{Enabled: true, MaxCents: 400}, map[string]string{"px_1": "24h"})
	unknown(t, h.Ledger, "px_1")
	reads := 0
	h.config.Schedules[0].Match.ProxyIDsFile = "list"
	h.config.ReadFile = func(string) ([]byte, error) {
		if reads++; reads == 2 {
			check(t, h.Ledger.Write(t.Context(), func(tx *ledger.Tx) error {
				return tx.Append(fact.ProxyReplaced{ProxyID: "px_1", Schedule: "other", Reason: "x", ExpiresAt: noon, CommandID: "replace-by-other", Command: []byte(`{"id":"replace-by-other"}`), MaxTotalCents: 400})
			}))
		}
		return []byte("px_1\n"), nil
	}
	h.restart(t)
	h.run(t)
	if reads < 2 {
		t.Fatalf("the list was read %d times", reads)
	}
	replaced := slices.DeleteFunc(h.facts(t, 0), func(factType string) bool { return factType != "proxy.replaced" })
	want(t, "replacements", len(replaced), 1)
	want(t, "orders", len(h.stream.orders), 0)
}

func TestAWrongClockReplacesNothing(t *testing.T) {
	h := replacing(t, plans.Replace{Enabled: true, MaxCents: 400}, map[string]string{"px_1": "24h"})
	unknown(t, h.Ledger, "px_1")
	h.provided = -time.Hour
	_, err := h.RunNow(t.Context(), "keepalive", "ann", "due", nil)
	wantErr(t, err, errSkew)
	want(t, "orders", len(h.stream.orders), 0)
}
