package sandbox_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"perennial/upstream"
	"perennial/upstream/sandbox"
)

// copyCrashed copies the database, the write-ahead log and the referee while the server runs, as
// a kill would leave them.
func copyCrashed(t *testing.T, from, to string) {
	t.Helper()
	names, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		raw, err := os.ReadFile(filepath.Join(from, n.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, n.Name()), raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func inDir(dir string, c *clock) func(*sandbox.Options) {
	return func(o *sandbox.Options) {
		o.DB, o.Charges = filepath.Join(dir, "sandbox.db"), filepath.Join(dir, "charges.jsonl")
		if c != nil {
			o.Clock = c.Now
		}
	}
}

func TestKilledServerLosesNothing(t *testing.T) {
	dir, crashed := t.TempDir(), t.TempDir()
	h := start(t, inDir(dir, nil))
	c := h.client(alphaSandbox)
	renewed := c.Post(bg(), renewal("renewed", "px_1", "px_null"))
	bought := c.Post(bg(), purchase("bought", "", 3))
	pending := c.Post(bg(), purchase("pending", "rejected", 2))
	if renewed.Renewal == nil || bought.Order == nil || pending.Order == nil {
		t.Fatalf("%+v %+v %+v", renewed, bought, pending)
	}
	page, err := c.ProxiesPage(bg(), upstream.PageRequest{Size: 100})
	if err != nil {
		t.Fatal(err)
	}
	before, err := c.Proxy(bg(), "px_1")
	if err != nil {
		t.Fatal(err)
	}
	copyCrashed(t, dir, crashed)

	h2 := start(t, inDir(crashed, h.clock))
	h2.clock = h.clock
	c2 := h2.client(alphaSandbox)
	if r := c2.Post(bg(), renewal("renewed", "px_1", "px_null")); r.TraceID != renewed.TraceID {
		t.Errorf("renewal not replayed: %+v", r)
	}
	if r := c2.Post(bg(), purchase("bought", "", 3)); r.TraceID != bought.TraceID {
		t.Errorf("order not replayed: %+v", r)
	}
	after, err := c2.Proxy(bg(), "px_1")
	if err != nil || !after.ExpiresAt.Equal(*before.ExpiresAt) {
		t.Errorf("%v %v", after.ExpiresAt, err)
	}
	o, err := c2.Order(bg(), bought.Order.OrderNo)
	if err != nil || len(o.Proxies) != 3 {
		t.Errorf("%+v %v", o, err)
	}
	if _, err := c2.ProxiesPage(bg(), upstream.PageRequest{Size: 100, Token: page.NextPageToken}); err != nil {
		t.Errorf("page token: %v", err)
	}
	h.clock.Advance(3 * time.Second)
	if o, err = c2.Order(bg(), pending.Order.OrderNo); err != nil || o.Refund == nil {
		h2.clock.Advance(3 * time.Second)
		if o, err = c2.Order(bg(), pending.Order.OrderNo); err != nil || o.Refund == nil {
			t.Errorf("%+v %v", o, err)
		}
	}
	h2.booksAgree(500000, "sandbox", h2.balance(c2))
	again := c2.Post(bg(), purchase("later", "", 1))
	if again.Order == nil || again.Order.OrderNo == bought.Order.OrderNo {
		t.Errorf("order numbers repeat: %+v", again)
	}
}

func TestRefereeIsBroughtUpToTheStateAfterACrash(t *testing.T) {
	dir, crashed := t.TempDir(), t.TempDir()
	h := start(t, inDir(dir, nil))
	c := h.client(alphaSandbox)
	for i := range 5 {
		if r := c.Post(bg(), renewal(fmt.Sprint("k", i), "px_1")); r.Renewal == nil {
			t.Fatalf("%+v", r)
		}
	}
	copyCrashed(t, dir, crashed)
	path := filepath.Join(crashed, "charges.jsonl")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(raw), "\n")
	if err := os.WriteFile(path, []byte(strings.Join(lines[:4], "")+lines[4][:20]), 0o600); err != nil { // the last line is incomplete
		t.Fatal(err)
	}
	for range 2 { // the second start must add nothing
		h2 := start(t, inDir(crashed, h.clock))
		h2.clock = h.clock
		charges, err := sandbox.ReadCharges(path)
		if err != nil || len(charges) != 5 || charges[4].IdempotencyKey != "k4" {
			t.Fatalf("%d lines, %v", len(charges), err)
		}
		h2.booksAgree(500000, "sandbox", h2.balance(h2.client(alphaSandbox)))
		if err := h2.s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// After a crash, the nonces of all requests with a reply are refused while their timestamps are
// valid. This includes the nonces of reads and of refused requests.
func TestNoncesOutliveACrash(t *testing.T) {
	dir, crashed := t.TempDir(), t.TempDir()
	h := start(t, inDir(dir, nil))
	stamp := h.clock.Now().Format(time.RFC3339)
	used := []raw{get("/api/v1/wallet"), renew(`{"duration_days":30,"proxy_ids":["px_1"]}`), renew(`{"duration_days":31,"proxy_ids":["px_1"]}`),
		get("/api/v1/nothing"), get("/api/v1/wallet")}
	used[4].app = "sbx_app_reader"
	for i := range used {
		used[i].nonce, used[i].stamp = fmt.Sprint("old-", i), stamp
		h.send(used[i])
	}
	copyCrashed(t, dir, crashed)
	for range 2 { // the second start reads what the first one stored
		h2 := start(t, inDir(crashed, h.clock))
		h2.clock = h.clock
		for i, q := range used {
			h2.wants(fmt.Sprint("replayed ", i), h2.send(q), 401, "replayed_nonce")
		}
		h2.clock.Advance(5 * time.Minute)
		for i, q := range used {
			h2.wants(fmt.Sprint("replayed late ", i), h2.send(q), 401, "replayed_nonce")
		}
		h2.wants("a fresh one", h2.send(get("/api/v1/wallet")), 200, "ok")
		h2.clock.Advance(-5 * time.Minute)
		if err := h2.s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Nonces are deleted after some time, so that reads do not make the database grow.
func TestOldNoncesAreForgotten(t *testing.T) {
	dir := t.TempDir()
	h := start(t, inDir(dir, nil))
	q := get("/api/v1/wallet")
	q.nonce = "again"
	h.wants("first", h.send(q), 200, "ok")
	for range 30 {
		h.clock.Advance(time.Minute)
		h.wants("meanwhile", h.send(get("/api/v1/wallet")), 200, "ok")
	}
	h.wants("half an hour later", h.send(q), 200, "ok")
	if err := h.s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite3", filepath.Join(dir, "sandbox.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	rows := 0
	if err := db.QueryRow("SELECT count(*) FROM nonces").Scan(&rows); err != nil || rows < 10 || rows > 15 {
		t.Errorf("%d rows of nonces, %v", rows, err)
	}
}

// A new or different referee file gets all lines at the start.
func TestAnotherRefereeFileGetsAllLines(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "other.jsonl")
	for i, change := range []func(*sandbox.Options){
		inDir(dir, nil),
		func(o *sandbox.Options) { inDir(dir, nil)(o); o.Charges = path },
		func(o *sandbox.Options) { inDir(dir, nil)(o); o.Charges = "" },
		func(o *sandbox.Options) { inDir(dir, nil)(o); o.Charges = path },
	} {
		h := start(t, change)
		if r := h.client(alphaSandbox).Post(bg(), renewal(fmt.Sprint("k", i), "px_1")); !r.Success {
			t.Fatalf("%+v", r)
		}
		h.booksAgree(500000, "sandbox", h.balance(h.client(alphaSandbox)))
		if err := h.s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	charges, err := sandbox.ReadCharges(path)
	if err != nil || len(charges) != 4 {
		t.Errorf("%d lines, %v", len(charges), err)
	}
}

func TestMemoryModeAppendsToTheReferee(t *testing.T) {
	path := tempFile(t, "charges.jsonl")
	for i := range 2 {
		h := start(t, func(o *sandbox.Options) { o.Charges = path })
		h.client(alphaSandbox).Post(bg(), renewal(fmt.Sprint("k", i), "px_1"))
		if err := h.s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	charges, err := sandbox.ReadCharges(path)
	if err != nil || len(charges) != 2 {
		t.Fatalf("%v %v", charges, err)
	}
	want := sandbox.Charge{Time: charges[0].Time, Environment: "sandbox", AccountID: "acc_alpha", AppID: alphaSandbox, IdempotencyKey: "k0",
		Kind: "charge", Reason: "renewal", AmountCents: 300, ProxyID: "px_1"}
	if charges[0] != want {
		t.Errorf("%+v", charges[0])
	}
}

func TestConcurrentDurableRenewalsAgree(t *testing.T) {
	h := start(t, inDir(t.TempDir(), nil))
	c := h.client(alphaSandbox)
	const workers, each = 8, 10
	done := make(chan struct{})
	for w := range workers {
		go func() {
			defer func() { done <- struct{}{} }()
			for i := range each {
				id := fmt.Sprintf("px_bulk_%d", w*each+i+1)
				if r := c.Post(bg(), renewal("k"+id, id)); r.Renewal == nil {
					t.Errorf("%+v", r)
				}
			}
		}()
	}
	for range workers {
		<-done
	}
	h.booksAgree(500000, "sandbox", h.balance(c))
	if h.balance(c) != 500000-workers*each*300 {
		t.Error("balance")
	}
}

func TestLoadFixture(t *testing.T) {
	good := `accounts:
  - account_id: acc_alpha
    wallet: {currency: USD, sandbox_cents: 5, production_cents: 6}
    keys: [{app_id: sbx_app_alpha, secret: "x", scopes: ["offers:read"], allow_cidrs: ["127.0.0.0/8"], revoked: false}]
offers:
  - {offer_code: o, unit_price_cents: 300, base_duration_days: 30, duration_days: [30], max_quantity: 5, stock: 7}
proxies:
  - {count: 3, prefix: p_, account_id: acc_alpha, environment: sandbox, offer_code: o, expires_in: 24h..240h}
`
	write := func(text string) string {
		path := tempFile(t, "fixture.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	f, err := sandbox.LoadFixture(write(good))
	if err != nil || f.Offers[0].Stock != 7 {
		t.Fatalf("%+v %v", f, err)
	}
	if _, err := sandbox.LoadFixture(write("{\n\t\"accounts\": [\n\t\t{\"account_id\": \"a\", \"keys\": []}\n\t]\n}")); err != nil {
		t.Errorf("JSON: %v", err)
	}
	for text, want := range map[string]string{
		strings.Replace(good, "max_quantity", "max_quantty", 1):      "line 6",
		strings.Replace(good, "sbx_app_alpha", "app_alpha", 1):       "app_id",
		strings.Replace(good, "24h..240h", "24h..soon", 1):           "expires_in",
		strings.Replace(good, "offers:read", "offers:write", 1):      "scope",
		strings.Replace(good, "offer_code: o,", "offer_code: p,", 1): "unknown",
		strings.ReplaceAll(good, "acc_alpha", "acc/alpha"):           "slash",
	} {
		if _, err := sandbox.LoadFixture(write(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	if err := sandbox.DefaultFixture().Validate(); err != nil {
		t.Error(err)
	}
}

func TestControlIsLoopbackOnly(t *testing.T) {
	if _, err := sandbox.Start(bg(), sandbox.Options{Control: "0.0.0.0:0"}); err == nil {
		t.Error("control on every address")
	}
}
