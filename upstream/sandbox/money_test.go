package sandbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"perennial/upstream"
	"perennial/upstream/sandbox"
)

// However many requests run in parallel, a wallet pays only what it contains.
func TestTheWalletNeverGoesBelowZero(t *testing.T) {
	for name, change := range map[string]func(*sandbox.Options){"memory": nil, "database": inDir(t.TempDir(), nil)} {
		h := start(t, change)
		h.control(http.MethodPost, "/wallet", map[string]any{"account_id": "acc_alpha", "environment": "sandbox", "add_cents": 1000 - 500000}, nil)
		c := h.client(alphaSandbox)
		replies := make(chan upstream.Reply, 40)
		for i := range cap(replies) {
			w := renewal(fmt.Sprint("k", i), fmt.Sprintf("px_bulk_%d", i+1))
			if i%2 == 1 {
				w = purchase(fmt.Sprint("k", i), "", 1)
			}
			go func() { replies <- c.Post(bg(), w) }()
		}
		paid := 0
		for range cap(replies) {
			if r := <-replies; r.Success {
				paid++
			} else if r.Code != upstream.CodeInsufficientWallet {
				t.Errorf("%s: %+v", name, r)
			}
		}
		if got := h.balance(c); paid != 3 || got != 100 {
			t.Errorf("%s: %d paid, balance %d", name, paid, got)
		}
		h.booksAgree(1000, "sandbox", 100)
	}
}

// Many parallel requests with one key lead to one charge. Every reply is the first reply or
// idempotency_processing.
func TestConcurrentSameKeyChargesOnceInADatabase(t *testing.T) {
	h := start(t, inDir(t.TempDir(), nil))
	c := h.client(alphaSandbox)
	var all sync.WaitGroup
	var mu sync.Mutex
	traces := map[string]bool{}
	for range 24 {
		all.Go(func() {
			r := c.Post(bg(), purchase("k", "", 2))
			if !r.Success && r.Code != upstream.CodeIdempotencyProcessing {
				t.Errorf("%+v", r)
			}
			mu.Lock()
			defer mu.Unlock()
			if r.Success {
				traces[r.TraceID] = true
			}
		})
	}
	all.Wait()
	if len(traces) != 1 || h.balance(c) != 500000-600 {
		t.Errorf("%d different replies, balance %d", len(traces), h.balance(c))
	}
}

// A retry gets the first reply, however the wallet, the stock and the offers have changed since.
func TestAReplayLooksAtNothingElse(t *testing.T) {
	h := start(t, nil)
	c := h.client(alphaSandbox)
	w := upstream.Write{Kind: upstream.WriteOrder, Key: "k", Body: []byte(`{"duration_days":30,"items":[{"offer_code":"off_de","quantity":3}]}`)}
	first := c.Post(bg(), w)
	h.control(http.MethodPost, "/wallet", map[string]any{"account_id": "acc_alpha", "environment": "sandbox", "add_cents": 900 - 500000}, nil)
	if r := c.Post(bg(), w); !first.Success || r.TraceID != first.TraceID || r.HTTPStatus != http.StatusCreated {
		t.Errorf("%+v", r)
	}
	w.Scenario = "rejected" // the header is not part of the content that the key identifies
	if r := c.Post(bg(), w); r.TraceID != first.TraceID {
		t.Errorf("%+v", r)
	}
}

// The stock of a rejected order can be bought again, and its money is refunded. The other
// environment has its own stock.
func TestARejectedOrderGivesItsStockBack(t *testing.T) {
	h := start(t, nil)
	body := `{"duration_days":30,"offer_code":"off_de","quantity":3}`
	rejected := order(body)
	rejected.header["X-Service-Sandbox-Scenario"] = "rejected"
	h.wants("accepted", h.send(rejected), http.StatusCreated, "ok")
	h.wants("reserved meanwhile", h.send(order(body)), http.StatusNotFound, "offer_not_found")
	live := order(body)
	live.app = alphaLive
	h.wants("production", h.sendTo(h.s.ProductionURL(), live), http.StatusCreated, "ok")
	h.clock.Advance(2 * time.Second)
	h.wants("after the rejection", h.send(order(body)), http.StatusCreated, "ok")
	if got := h.balance(h.client(alphaSandbox)); got != 500000-900 {
		t.Errorf("balance %d", got)
	}
}

// When a client sees the fault of an executed request, the referee's line is already in the
// file.
func TestTheRefereeKnowsBeforeAnyFault(t *testing.T) {
	for _, db := range []bool{false, true} {
		dir := t.TempDir()
		charges := dir + "/charges.jsonl"
		h := start(t, func(o *sandbox.Options) {
			inDir(dir, nil)(o)
			if !db {
				o.DB = ""
			}
		})
		c := h.client(alphaSandbox)
		for i, f := range []fault{{"fault": "drop_after"}, {"fault": "error_after"}, {"fault": "truncate"}, {"fault": "garbage"},
			{"fault": "code", "code": "operation_failed", "executed": true}, {"fault": "hang", "seconds": 0.001}, {"fault": "unresolved_record"},
			{"fault": "renewal", "failed": 1}} {
			h.fault(f)
			key := fmt.Sprint("k", i)
			c.Post(bg(), renewal(key, "px_1"))
			lines, err := sandbox.ReadCharges(charges)
			if err != nil || len(lines) == 0 || lines[len(lines)-1].IdempotencyKey != key {
				t.Errorf("database %t, %v: the file ends with %+v, %v", db, f, lines, err)
			}
		}
	}
}

// Records survive a crash with their age. Interrupted records stay forever, completed ones for
// the rest of their 24 hours.
func TestRecordsOutliveACrash(t *testing.T) {
	dir, crashed := t.TempDir(), t.TempDir()
	h := start(t, inDir(dir, nil))
	c := h.client(alphaSandbox)
	h.fault(fault{"fault": "unresolved_record"})
	c.Post(bg(), renewal("executed", "px_1"))
	h.fault(fault{"fault": "unresolved_record", "executed": false})
	c.Post(bg(), renewal("not executed", "px_null"))
	first := c.Post(bg(), renewal("completed", "px_bulk_1"))
	h.fault(fault{"fault": "renewal", "failed": 1})
	failed := c.Post(bg(), renewal("failed", "px_bulk_2"))
	h.control(http.MethodPost, "/keys", map[string]any{"app_id": "sbx_app_near", "revoked": true}, nil)
	h.control(http.MethodPost, "/wallet", map[string]any{"account_id": "acc_alpha", "environment": "sandbox", "add_cents": 7}, nil)
	h.control(http.MethodPost, "/clock", map[string]any{"offset_seconds": 60}, nil)
	copyCrashed(t, dir, crashed)

	h2 := start(t, inDir(crashed, h.clock))
	h2.clock = h.clock
	c2 := h2.client(alphaSandbox)
	if w, err := c2.Wallet(bg()); err != nil || !w.ServerTime.Equal(h.clock.Now().Add(time.Minute)) {
		t.Errorf("the moved clock is forgotten: %v %v", w.ServerTime, err)
	}
	h2.control(http.MethodPost, "/clock", map[string]any{"offset_seconds": 0}, nil)
	h2.clock.Advance(24*time.Hour - time.Second)
	if r := c2.Post(bg(), renewal("completed", "px_bulk_1")); r.TraceID != first.TraceID {
		t.Errorf("%+v", r)
	}
	if r := c2.Post(bg(), renewal("failed", "px_bulk_2")); r.TraceID != failed.TraceID || r.HTTPStatus != 422 || r.Renewal == nil {
		t.Errorf("%+v", r)
	}
	if got := h2.balance(c2); got != 500000+7-2*300 {
		t.Errorf("balance %d", got)
	}
	h2.clock.Advance(time.Second)
	if r := c2.Post(bg(), renewal("completed", "px_bulk_1")); !r.Success || r.TraceID == first.TraceID {
		t.Errorf("%+v", r)
	}
	h2.clock.Advance(1000 * time.Hour)
	for key, id := range map[string]string{"executed": "px_1", "not executed": "px_null"} {
		if r := c2.Post(bg(), renewal(key, id)); r.Code != upstream.CodeIdempotencyUnresolved || r.HTTPStatus != http.StatusConflict {
			t.Errorf("%s: %+v", key, r)
		}
	}
	if _, err := h2.client("sbx_app_near").Wallet(bg()); err == nil || !strings.Contains(err.Error(), "api_key_revoked") {
		t.Errorf("%v", err)
	}
}

// A request that hung when the process was killed was committed completely. It is charged, and
// its key gets the first reply.
func TestWhatHungAtACrashIsCompleted(t *testing.T) {
	dir, crashed := t.TempDir(), t.TempDir()
	h := start(t, inDir(dir, nil))
	c := h.client(alphaSandbox)
	h.fault(fault{"fault": "hang", "seconds": 600, "path": "/api/v1/proxies/renew"})
	ctx, cancel := context.WithCancel(bg())
	hanging := make(chan upstream.Reply)
	go func() { hanging <- c.Post(ctx, renewal("k", "px_1")) }()
	for h.balance(c) == 500000 { // until the request is executed and hangs
	}
	copyCrashed(t, dir, crashed)
	cancel()
	<-hanging
	h2 := start(t, inDir(crashed, h.clock))
	h2.clock = h.clock
	c2 := h2.client(alphaSandbox)
	if r := c2.Post(bg(), renewal("k", "px_1")); !r.Success {
		t.Errorf("%+v", r)
	}
	h2.booksAgree(500000, "sandbox", 500000-300)
	if got := h2.balance(c2); got != 500000-300 {
		t.Errorf("balance %d", got)
	}
}

// A page token is valid only in one environment and for one set of filters.
func TestPageTokensOfOtherPlacesAreRefused(t *testing.T) {
	h := start(t, nil)
	next := func(target string) string {
		t.Helper()
		var data struct {
			Next string `json:"next_page_token"`
		}
		if got := h.send(get(target)); json.Unmarshal(got.Data, &data) != nil || data.Next == "" {
			t.Fatalf("%s", got.body)
		}
		return data.Next
	}
	token := next("/api/v1/offers?page_size=1&line=premium")
	live := get("/api/v1/offers?page_size=1&line=premium&page_token=" + token)
	live.app = alphaLive
	h.wants("production", h.sendTo(h.s.ProductionURL(), live), http.StatusBadRequest, "invalid_page_token")
	for _, query := range []string{"page_size=1", "page_size=1&line=premium&country_code=US", "page_size=1&line=premium&ip_type=isp",
		"page_size=1&line=premium&region=Dallas", "page_size=1&line=premium&quantity=1", "page_size=1&line=premium&duration_days=30", "line=premium"} {
		h.wants(query, h.send(get("/api/v1/offers?"+query+"&page_token="+token)), http.StatusBadRequest, "invalid_page_token")
	}
	h.wants("as given", h.send(get("/api/v1/offers?page_token="+token+"&line=premium&page_size=1")), http.StatusOK, "ok")
}

// A fault that interrupts the next request with the key must not restore a record whose
// retention has passed.
func TestAForgottenRecordIsNotInterrupted(t *testing.T) {
	h := start(t, nil)
	c := h.client(alphaSandbox)
	if r := c.Post(bg(), renewal("again", "px_1")); !r.Success {
		t.Fatalf("%+v", r)
	}
	h.clock.Advance(25 * time.Hour)
	h.fault(fault{"fault": "unresolved_record"})
	if r := c.Post(bg(), renewal("again", "px_1")); r.Code != "" || r.HTTPStatus != 0 {
		t.Errorf("the key is new and its reply lost: %+v", r)
	}
	if r := c.Post(bg(), renewal("again", "px_1")); r.Code != upstream.CodeIdempotencyUnresolved {
		t.Errorf("%+v", r)
	}
	if charges, err := h.s.Charges(); err != nil || len(charges) != 2 {
		t.Errorf("%v %v", charges, err)
	}
}
