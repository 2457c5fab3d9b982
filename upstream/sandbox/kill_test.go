package sandbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"perennial/ledger/testrun"
	"perennial/upstream"
	"perennial/upstream/sandbox"
)

// inReferee checks that the file, as the kill left it, has each write with a reply exactly once.
func inReferee(t *testing.T, path string, answered []written) {
	t.Helper()
	charges, err := sandbox.ReadCharges(path)
	if err != nil && (len(answered) > 0 || !errors.Is(err, fs.ErrNotExist)) { // killed before it created the file
		t.Fatal(err)
	}
	lines := map[string]int{}
	for _, c := range charges {
		lines[c.Kind+" "+c.IdempotencyKey+" "+c.OrderNo+c.ProxyID]++
	}
	for line, n := range lines {
		if n > 1 {
			t.Errorf("%d times in the referee: %s", n, line)
		}
	}
	for _, w := range answered {
		if w.orderNo != "" && lines["charge "+w.Key+" "+w.orderNo] != 1 {
			t.Errorf("order %s was answered and is not in the referee", w.Key)
		}
		for _, id := range w.proxies {
			if lines["charge "+w.Key+" "+id] != 1 {
				t.Errorf("renewal %s of %s was answered and is not in the referee", w.Key, id)
			}
		}
	}
}

const stormWorkers = 8

// A sandbox with a database is killed repeatedly, while clients send requests and while it
// recovers. In the end no write with a reply is missing, no key was charged twice, the referee
// agrees with the state, and no earlier nonce is accepted.
func TestKilledAgainAndAgain(t *testing.T) {
	lives := 9
	if testrun.Check {
		lives = 30
	}
	random := rand.New(rand.NewPCG(2026, 11))
	o := childIn(t.TempDir(), true)
	s := newStorm(t)
	var workers sync.WaitGroup
	for n := range stormWorkers {
		workers.Go(func() { s.hammer(n, false) })
	}
	var nonces []raw
	var before map[string]time.Time
	for life := range lives {
		if life%3 == 0 { // killed during the start, or just after it; also at the first start
			moment, cancel := context.WithTimeout(bg(), time.Duration(random.IntN(40_000))*time.Microsecond)
			if c, ready := startChild(moment, t, o); ready {
				_ = c.cmd.Wait()
			}
			cancel()
			inReferee(t, o.Charges, s.soFar())
		}
		c, ready := startChild(bg(), t, o)
		if !ready {
			t.Fatal("the sandbox does not start again")
		}
		if life == 0 {
			before = expiries(t, c)
		}
		nonces = replayed(t, c, nonces)
		dead := make(chan struct{})
		s.lives(c, 1+random.IntN(60), func() { _ = c.cmd.Process.Kill(); close(dead) })
		<-dead
		c.kill()
		s.died()
		inReferee(t, o.Charges, s.soFar())
	}
	c, ready := startChild(bg(), t, o)
	if !ready {
		t.Fatal("the sandbox does not start again")
	}
	s.lives(c, 0, nil) // first, so that workers in the middle of a write can finish it
	s.stop()
	workers.Wait()
	defer s.died()
	defer c.kill()
	agree(t, c, s, o.Charges, before)
	t.Logf("%d lives, %d answered writes", lives+1, len(s.soFar()))
}

// replayed checks that the nonces of earlier processes are refused, and uses a new nonce.
func replayed(t *testing.T, c *child, used []raw) []raw {
	t.Helper()
	host := strings.TrimPrefix(c.Sandbox, "http://")
	for _, q := range used {
		if got, err := exchange(host, q.text(host, time.Now()), "GET"); err != nil || got.Code != "replayed_nonce" {
			t.Errorf("nonce %s: %+v %v", q.nonce, got, err)
		}
	}
	q := get("/api/v1/wallet")
	q.nonce, q.stamp = fmt.Sprint("life ", len(used)), time.Now().UTC().Format(time.RFC3339)
	if got, err := exchange(host, q.text(host, time.Now()), "GET"); err != nil || got.Code != "ok" {
		t.Errorf("%+v %v", got, err)
	}
	return append(used, q)
}

func childClient(t *testing.T, c *child) *upstream.Client {
	t.Helper()
	client, err := upstream.New(upstream.Config{BaseURL: c.Sandbox, AppID: alphaSandbox, Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func expiries(t *testing.T, c *child) map[string]time.Time {
	t.Helper()
	out := map[string]time.Time{}
	for p, err := range childClient(t, c).Proxies(bg(), 200) {
		if err != nil {
			t.Fatal(err)
		}
		if p.ExpiresAt != nil {
			out[p.ProxyID] = *p.ExpiresAt
		}
	}
	return out
}

// finished waits until no order is in progress and returns their numbers.
func finished(t *testing.T, client *upstream.Client) map[string]bool {
	t.Helper()
	for {
		open, out := 0, map[string]bool{}
		for o, err := range client.Orders(bg(), 200) {
			if err != nil {
				t.Fatal(err)
			}
			out[o.OrderNo] = true
			if o.Status == "paid" || o.Status == "procuring" {
				open++
			}
		}
		if open == 0 {
			return out
		}
	}
}

// agree compares replies, state and referee with each other.
func agree(t *testing.T, c *child, s *storm, path string, before map[string]time.Time) {
	t.Helper()
	client := childClient(t, c)
	orders, answered := finished(t, client), s.soFar()
	for _, w := range answered {
		if r := client.Post(bg(), w.Write); !r.Success || r.TraceID != w.traceID {
			t.Errorf("%s is not replayed: %+v, first %s", w.Key, r, w.traceID)
		}
	}
	inReferee(t, path, answered)
	charges, err := sandbox.ReadCharges(path)
	if err != nil {
		t.Fatal(err)
	}
	keys, numbers, renewals, wallet := map[string]bool{}, map[string]bool{}, map[string]int{}, int64(childWallet)
	for _, line := range charges {
		keys[line.IdempotencyKey] = true
		if line.Kind == "refund" {
			wallet += line.AmountCents
			continue
		}
		wallet -= line.AmountCents
		if line.OrderNo != "" {
			numbers[line.OrderNo] = true
		} else {
			renewals[line.ProxyID]++
		}
	}
	if len(keys) != len(answered) {
		t.Errorf("%d keys were charged, %d writes answered", len(keys), len(answered))
	}
	if !maps.Equal(numbers, orders) {
		t.Errorf("the referee knows %d orders, the state %d", len(numbers), len(orders))
	}
	if w, err := client.Wallet(bg()); err != nil || w.BalanceCents != wallet {
		t.Errorf("wallet %d, referee %d, %v", w.BalanceCents, wallet, err)
	}
	for id, now := range expiries(t, c) {
		if was, ok := before[id]; ok && !now.Equal(was.AddDate(0, 0, 30*renewals[id])) {
			t.Errorf("%s expires at %v, %d renewals after %v", id, now, renewals[id], was)
		}
	}
	resp, err := http.Get(c.Control + "/charges")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var shown []sandbox.Charge
	if err := json.NewDecoder(resp.Body).Decode(&shown); err != nil || len(shown) != len(charges) {
		t.Errorf("GET /charges shows %d lines of %d, %v", len(shown), len(charges), err)
	}
	http.DefaultClient.CloseIdleConnections()
}

// Without a database a kill loses the state, but no line of the referee for a request with a
// reply.
func TestKilledInMemoryMode(t *testing.T) {
	o := childIn(t.TempDir(), false)
	s := newStorm(t)
	var workers sync.WaitGroup
	for n := range stormWorkers {
		workers.Go(func() { s.hammer(n, true) })
	}
	random := rand.New(rand.NewPCG(5, 8))
	for range 6 {
		c, ready := startChild(bg(), t, o)
		if !ready {
			t.Fatal("the sandbox does not start")
		}
		dead := make(chan struct{})
		s.lives(c, 1+random.IntN(200), func() { _ = c.cmd.Process.Kill(); close(dead) })
		<-dead
		c.kill()
		s.died()
	}
	s.stop()
	workers.Wait()
	inMemoryReferee(t, o.Charges, s.soFar())
}

// inMemoryReferee does the work of inReferee for processes without a database, whose order
// numbers start again.
func inMemoryReferee(t *testing.T, path string, answered []written) {
	t.Helper()
	charges, err := sandbox.ReadCharges(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]bool{}
	for _, c := range charges {
		lines[c.IdempotencyKey+" "+c.OrderNo+c.ProxyID] = true
	}
	for _, w := range answered {
		for _, id := range append(w.proxies, w.orderNo) {
			if id != "" && !lines[w.Key+" "+id] {
				t.Errorf("%s was answered and is not in the referee", w.Key)
			}
		}
	}
	if len(answered) == 0 {
		t.Error("nothing was answered")
	}
}
