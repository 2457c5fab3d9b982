package sandbox_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"perennial/upstream/sandbox"
)

func priced(o *sandbox.Options) {
	o.Fixture.Offers[0].QuantityPrices = map[int64]int64{10: 280, 100: 250}
	o.Fixture.Offers[0].DurationPrices = map[int64]int64{90: 270}
}

// Quotes and charges use the fixture's prices by quantity and duration. The account's own price
// has precedence.
func TestPricesByQuantityDurationAndAccount(t *testing.T) {
	unit := func(h *rig, query string) int64 {
		var data struct {
			Offers []struct {
				Cents int64 `json:"unit_price_cents"`
			}
		}
		if err := json.Unmarshal(h.send(get("/api/v1/offers?country=US"+query)).Data, &data); err != nil || len(data.Offers) != 1 {
			t.Fatalf("%v %v", data, err)
		}
		return data.Offers[0].Cents
	}
	h := start(t, priced)
	for query, want := range map[string]int64{"": 300, "&quantity=9": 300, "&quantity=10": 280, "&quantity=100": 250, "&duration_days=90": 270, "&quantity=100&duration_days=90": 250} {
		if got := unit(h, query); got != want {
			t.Errorf("%q: %d, want %d", query, got, want)
		}
	}
	before := h.refereeBalance()
	placed := order(`{"duration_days":90,"items":[{"offer_code":"off_us","quantity":2}]}`)
	placed.key = "o-1"
	renewed := renew(`{"duration_days":90,"proxy_ids":["px_1"]}`)
	renewed.key = "r-1"
	h.send(placed)
	h.send(renewed)
	if paid := before - h.refereeBalance(); paid != 3*270*3 {
		t.Errorf("paid %d", paid)
	}
	own := start(t, func(o *sandbox.Options) {
		priced(o)
		o.Fixture.Accounts[0].Prices = map[string]int64{"off_us": 290}
	})
	if got := unit(own, "&quantity=100"); got != 290 {
		t.Errorf("the account's own price: %d", got)
	}
	bad := fixture()
	bad.Offers[0].QuantityPrices = map[int64]int64{0: 5}
	if err := bad.Validate(); err == nil {
		t.Error("a price for no quantity is taken")
	}
}

// Frozen money is shown and cannot be spent, even after a restart.
func TestFrozenCentsCannotBeSpent(t *testing.T) {
	db := tempFile(t, "sandbox.db")
	frozen := func(o *sandbox.Options) { o.DB, o.Fixture.Accounts[0].Wallet.SandboxFrozenCents = db, 499_900 }
	h := start(t, frozen)
	refused := renew(`{"duration_days":30,"proxy_ids":["px_1"]}`)
	refused.key = "r-1"
	h.wants("frozen by the fixture", h.send(refused), http.StatusPaymentRequired, "insufficient_wallet_balance")
	h.control(http.MethodPost, "/wallet", map[string]any{"account_id": "acc_alpha", "environment": "sandbox", "frozen_cents": 1234}, nil)
	h.wants("thawed", h.send(refused), http.StatusOK, "ok")
	if status, answer := h.controlRaw(http.MethodPost, "/wallet", `{"account_id":"acc_alpha","environment":"sandbox","frozen_cents":-1}`, ""); status != 400 || answer["field"] != "frozen_cents" {
		t.Errorf("%d %v", status, answer)
	}
	if err := h.s.Close(); err != nil {
		t.Fatal(err)
	}
	again := start(t, frozen)
	if s := again.send(get("/api/v1/wallet")); !strings.Contains(s.body, `"frozen_cents":1234`) {
		t.Error(s.body)
	}
	broken := fixture()
	broken.Accounts[0].Wallet.SandboxFrozenCents = 500_001
	if err := broken.Validate(); err == nil {
		t.Error("more is frozen than there is")
	}
}

// A suspended account shows its status and may read, but not buy.
func TestASuspendedAccountReadsAndDoesNotBuy(t *testing.T) {
	db := tempFile(t, "sandbox.db")
	h := start(t, func(o *sandbox.Options) { o.DB = db })
	set := func(status string) {
		h.control(http.MethodPost, "/accounts", map[string]any{"account_id": "acc_alpha", "status": status}, nil)
	}
	set("suspended")
	q := renew(`{"duration_days":30,"proxy_ids":["px_1"]}`)
	q.key = "r-1"
	h.wants("suspended", h.send(q), http.StatusForbidden, "insufficient_scope")
	if err := h.s.Close(); err != nil {
		t.Fatal(err)
	}
	h = start(t, func(o *sandbox.Options) { o.DB = db })
	if s := h.send(get("/api/v1/account")); !strings.Contains(s.body, `"status":"suspended"`) {
		t.Error(s.body)
	}
	set("active")
	h.wants("active", h.send(q), http.StatusOK, "ok")
	if status, answer := h.controlRaw(http.MethodPost, "/accounts", `{"account_id":"acc_alpha"}`, ""); status != 400 || answer["field"] != "status" {
		t.Errorf("%d %v", status, answer)
	}
}

// A client that polls after poll_after_seconds, or a little later, sees the partial delivery.
func TestPartialProgressIsSeenByAPollInTime(t *testing.T) {
	for _, poll := range []int64{1, 5, 60} {
		for _, late := range []time.Duration{0, 400 * time.Millisecond} {
			h := start(t, func(o *sandbox.Options) { o.PollAfterSeconds = poll })
			c := h.client(alphaSandbox)
			created := c.Post(bg(), purchase("p", "partial", 4))
			seen := false
			for range 10 {
				h.clock.Advance(time.Duration(poll)*time.Second + late)
				o, err := c.Order(bg(), created.Order.OrderNo)
				if err != nil {
					t.Fatal(err)
				}
				seen = seen || o.Delivery.DeliveredCount == 2 && !o.Delivery.Complete && len(o.Proxies) == 0
				if o.PollAfterSeconds == nil {
					break
				}
			}
			if !seen {
				t.Errorf("poll_after_seconds %d, late by %s: no progress is seen", poll, late)
			}
		}
	}
}
