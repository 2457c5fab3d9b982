package sandbox_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"perennial/upstream"
	"perennial/upstream/sandbox"
)

func benchHouse(b *testing.B) *rig {
	return start(b, func(o *sandbox.Options) {
		f := fixture()
		f.Accounts[0].Wallet.SandboxCents = 1 << 50
		o.Fixture, o.Charges, o.ChargesNoSync, o.Clock = f, tempFile(b, "charges.jsonl"), true, time.Now
	})
}

// BenchmarkRenewal measures the client and the sandbox together in one process.
func BenchmarkRenewal(b *testing.B) {
	h := benchHouse(b)
	c := h.client(alphaSandbox, func(c *upstream.Config) { c.Clock = time.Now })
	var bodies [500]upstream.Write // the expiry of a single proxy would exceed the year 9999
	for i := range bodies {
		bodies[i] = renewal("", fmt.Sprint("px_bulk_", i+1))
	}
	b.ReportAllocs()
	b.SetParallelism(8)
	var next atomic.Int64
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			n := next.Add(1)
			w := bodies[n%500]
			w.Key = fmt.Sprint("k", n)
			if r := c.Post(bg(), w); !r.Success {
				b.Errorf("%+v", r)
			}
		}
	})
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "renewals/s")
}

// BenchmarkSandboxRenewal measures the sandbox with signed requests over a plain connection, one
// after another.
func BenchmarkSandboxRenewal(b *testing.B) {
	h := benchHouse(b)
	u, err := url.Parse(h.s.SandboxURL())
	if err != nil {
		b.Fatal(err)
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	in := bufio.NewReader(conn)
	stamp := time.Now().UTC().Format(time.RFC3339)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		n := fmt.Sprint(i)
		body := renewal("", fmt.Sprint("px_bulk_", i%500+1)).Body
		sig := upstream.Sign(secret, upstream.CanonicalString("POST", u.Hostname(), "/api/v1/proxies/renew", "", stamp, n, upstream.BodyHash(body)))
		if _, err := fmt.Fprintf(conn, "POST /api/v1/proxies/renew HTTP/1.1\r\nHost: %s\r\nX-API-AppId: %s\r\nX-API-Timestamp: %s\r\nX-API-Nonce: %s\r\nX-API-Signature: %s\r\nIdempotency-Key: %s\r\nContent-Length: %d\r\n\r\n%s",
			u.Host, alphaSandbox, stamp, n, sig, n, len(body), body); err != nil {
			b.Fatal(err)
		}
		resp, err := http.ReadResponse(in, nil) //nolint:bodyclose // the body is discarded below, by its length
		if err != nil || resp.StatusCode != http.StatusOK {
			b.Fatal(resp, err)
		}
		_, _ = in.Discard(int(resp.ContentLength))
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "renewals/s")
}

// BenchmarkDurable measures requests with a database, including nonces: renewals and reads by
// sixteen clients that share commits.
func BenchmarkDurable(b *testing.B) {
	for name, ask := range map[string]func(c *upstream.Client, n int64) error{
		"renewal": func(c *upstream.Client, n int64) error {
			if r := c.Post(bg(), renewal(fmt.Sprint("k", n), fmt.Sprint("px_bulk_", n%500+1))); !r.Success {
				return fmt.Errorf("%+v", r)
			}
			return nil
		},
		"read": func(c *upstream.Client, n int64) error {
			_, err := c.Proxy(bg(), fmt.Sprint("px_bulk_", n%500+1))
			return err
		},
	} {
		b.Run(name, func(b *testing.B) {
			h := start(b, func(o *sandbox.Options) {
				inDir(b.TempDir(), nil)(o)
				o.Fixture, o.Clock = fixture(), time.Now
				o.Fixture.Accounts[0].Wallet.SandboxCents = 1 << 50
			})
			c := h.client(alphaSandbox, func(c *upstream.Config) { c.Clock = time.Now })
			var next atomic.Int64
			b.SetParallelism(8)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := ask(c, next.Add(1)); err != nil {
						b.Error(err)
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
		})
	}
}

// The cost of a page does not depend on the number of proxies.
func BenchmarkListMillion(b *testing.B) {
	h := start(b, func(o *sandbox.Options) {
		f := fixture()
		f.Proxies[3].Count = 1_000_000
		o.Fixture, o.Clock = f, time.Now
	})
	c := h.client(alphaSandbox, func(c *upstream.Config) { c.Clock = time.Now })
	token := ""
	b.ResetTimer()
	for range b.N {
		page, err := c.ProxiesPage(bg(), upstream.PageRequest{Size: 200, Token: token})
		if err != nil {
			b.Fatal(err)
		}
		token = page.NextPageToken
	}
	if strings.Contains(token, "%") {
		b.Fatal("token is not plain")
	}
}
