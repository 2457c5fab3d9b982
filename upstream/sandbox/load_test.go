package sandbox_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"perennial/ledger/testrun"
	"perennial/upstream"
	"perennial/upstream/sandbox"
)

// slowClients attach in every way of being slow: nothing sent, one byte, a head
// without its end, a body that was announced and does not come, and replies that
// are not read.
func slowClients(t *testing.T, h *rig, n int) (closeAll func()) {
	t.Helper()
	host := strings.TrimPrefix(h.s.SandboxURL(), "http://")
	body := renew(`{"duration_days":30,"proxy_ids":["px_1"]}`)
	body.body += strings.Repeat(" ", 1<<20-len(body.body))
	whole := body.text(host, h.clock.Now())
	conns := make([]net.Conn, 0, n)
	for i := range n {
		conn, err := net.Dial("tcp", host)
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
		text := ""
		switch i % 5 {
		case 1:
			text = "P"
		case 2:
			text = whole[:200]
		case 3:
			text = whole[:2000]
		case 4:
			_ = conn.(*net.TCPConn).SetReadBuffer(4096)
			if i%50 == 4 { // more than fits between two kernels
				var b strings.Builder
				for range 40 {
					b.WriteString(get("/api/v1/proxies?page_size=200").text(host, h.clock.Now()))
				}
				text = b.String()
			} else {
				text = get("/api/v1/proxies?page_size=200").text(host, h.clock.Now())
			}
		}
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		for _, conn := range conns {
			_ = conn.Close()
		}
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Ten thousand requests from two hundred connections while a thousand slow
// clients hang on: no wrong answer, one charge for each key, bounded memory. How
// long it takes is logged, not judged. It runs beside no other test: the heap is the
// process's.
func TestLoadWithSlowClients(t *testing.T) {
	connections, each, slow := 50, 20, 200
	if testrun.Check {
		connections, each, slow = 200, 50, 1000
	}
	var log complaints
	h := start(t, complaining(&log, func(o *sandbox.Options) {
		o.Fixture = fixture()
		o.Fixture.Accounts[0].Wallet.SandboxCents = 100_000_000
		o.Fixture.Proxies[3].Count = connections
	}))
	before := heap()
	defer slowClients(t, h, slow)()
	c := h.client(alphaSandbox)
	took := make([][]time.Duration, connections)
	var all sync.WaitGroup
	for n := range connections {
		all.Go(func() {
			for i := range each {
				begun := time.Now()
				if err := oneOf(c, n, i); err != nil {
					t.Errorf("connection %d, request %d: %v", n, i, err)
				}
				took[n] = append(took[n], time.Since(begun))
			}
		})
	}
	all.Wait()
	grown := int64(heap()) - int64(before)
	if grown > 128<<20 {
		t.Errorf("the heap grew by %d MB", grown>>20)
	}
	times := slices.Concat(took...)
	slices.Sort(times)
	t.Logf("%d requests: p50 %v, p99 %v, longest %v; the heap grew by %d MB", len(times), times[len(times)/2], times[len(times)*99/100],
		times[len(times)-1], grown>>20)
	renewals := int64(connections * each / 5)
	h.booksAgree(100_000_000, "sandbox", h.balance(c))
	if got := h.balance(c); got != 100_000_000-renewals*300 {
		t.Errorf("balance %d after %d renewals", got, renewals)
	}
	for n := range connections {
		got := h.send(get(fmt.Sprintf("/api/v1/proxies/px_bulk_%d", n+1)))
		want := h.clock.Now().Add(proxyAge(n, connections)).AddDate(0, 0, 30*each/5).Format(time.RFC3339)
		if !strings.Contains(got.body, `"expires_at":"`+want) {
			t.Errorf("proxy %d does not expire at %s: %s", n+1, want, got.body)
		}
	}
	log.none(t)
}

// proxyAge is when the fixture lets bulk proxy n of count expire.
func proxyAge(n, count int) time.Duration {
	return 24*time.Hour + (216 * time.Hour / time.Duration(count-1) * time.Duration(n)).Truncate(time.Second)
}

// oneOf makes request i of connection n and checks its answer: a renewal, its
// replay, the proxy, the offers, a wrong order.
func oneOf(c *upstream.Client, n, i int) error {
	id := fmt.Sprintf("px_bulk_%d", n+1)
	w := renewal(fmt.Sprintf("load-%d-%d", n, i/5), id)
	switch i % 5 {
	case 0, 1:
		r := c.Post(bg(), w)
		if !r.Success || r.Renewal == nil || r.Renewal.ChargedCents != 300 || len(r.Renewal.Successful) != 1 || r.Renewal.Successful[0] != id {
			return fmt.Errorf("renewal: %+v", r)
		}
	case 2:
		p, err := c.Proxy(bg(), id)
		if err != nil || p.ProxyID != id {
			return fmt.Errorf("proxy: %+v %w", p, err)
		}
	case 3:
		page, err := c.OffersPage(bg(), upstream.OfferFilter{CountryCode: "DE"}, upstream.PageRequest{})
		if err != nil || len(page.Items) != 1 || page.Items[0].OfferCode != "off_de" {
			return fmt.Errorf("offers: %+v %w", page, err)
		}
	case 4:
		r := c.Post(bg(), upstream.Write{Kind: upstream.WriteOrder, Key: fmt.Sprintf("wrong-%d-%d", n, i), Body: []byte(`{"duration_days":30,"items":[]}`)})
		if r.Code != upstream.CodeValidationError || r.HTTPStatus != http.StatusUnprocessableEntity {
			return fmt.Errorf("wrong order: %+v", r)
		}
	}
	return nil
}
