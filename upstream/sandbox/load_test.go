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

// slowClients connects n slow clients. They send nothing, one byte, an incomplete header, no
// body after announcing one, or do not read replies.
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
			if i%50 == 4 { // more than the kernels' buffers
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

// Two hundred connections send ten thousand requests while a thousand slow clients are
// connected. No reply may be wrong, each key is charged once, and memory is limited. The
// duration is only logged. The test is not parallel, because it measures the heap of the
// process.
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

// proxyAge returns the time to the expiry of bulk proxy n of count in the fixture.
func proxyAge(n, count int) time.Duration {
	return 24*time.Hour + (216 * time.Hour / time.Duration(count-1) * time.Duration(n)).Truncate(time.Second)
}

// oneOf sends request i of connection n and checks the reply. The request is a renewal, its
// retry, a read of the proxy or the offers, or an invalid order.
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
