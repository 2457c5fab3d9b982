package cli

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/daemon"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/upstream/sandbox"
)

// The size of the ledger that BenchmarkStart starts. The figures of a large ledger come from:
//
//	go test ./cmd/perennial/internal/cli -run '^$' -bench Start -benchtime 3x -timeout 2h -start.rows 10000000 -start.proxies 1000000
var (
	startRows    = flag.Int("start.rows", 20_000, "journal rows of the ledger that BenchmarkStart starts")
	startProxies = flag.Int("start.proxies", 2_000, "proxies of that ledger")
)

// BenchmarkStart measures how long `perennial run` takes until it is ready. The ledger and the
// events stream hold the same rows.
func BenchmarkStart(b *testing.B) {
	a := &app{stdout: io.Discard, stderr: io.Discard}
	box, err := sandbox.Start(b.Context(), sandbox.Options{Fixture: sandbox.DefaultFixture(), ChargesNoSync: true, Clock: time.Now})
	started(b, err)
	b.Cleanup(func() { started(b, box.Close()) })
	c := &config.Config{DataDir: b.TempDir(), NATS: config.NATS{Listen: "127.0.0.1:0"}, HTTP: config.HTTP{Listen: "127.0.0.1:0"}, Accounts: map[string]*config.Account{
		"bench": {BaseURL: box.SandboxURL(), AppID: sandbox.DemoSandboxAppID, Secret: sandbox.DemoSandboxSecret, RatePerSecond: 5, Concurrency: 8, Location: time.UTC, Replicas: 1},
	}}
	c.Defaults()
	run := func(then func(ctx context.Context, h *daemon.Host)) {
		h, err := daemon.Start(b.Context(), c, a.logger())
		started(b, err)
		ctx, cancel := context.WithCancel(b.Context())
		done := make(chan error, 1)
		go func() { done <- h.Run(ctx) }()
		then(ctx, h)
		b.StopTimer()
		cancel()
		started(b, <-done)
		h.Close()
		b.StartTimer()
	}
	works := func(ctx context.Context, h *daemon.Host) {
		for code := 0; code != http.StatusOK; {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, h.HTTP.URL()+"/readyz", nil)
			started(b, err)
			answer, err := http.DefaultClient.Do(request)
			started(b, err)
			code = answer.StatusCode
			started(b, answer.Body.Close())
		}
	}
	run(works)
	fillForStart(b, c.LedgerPath("bench"))
	run(func(ctx context.Context, h *daemon.Host) { works(ctx, h); started(b, h.AwaitStored(ctx)) })
	b.ResetTimer()
	for b.Loop() {
		run(works)
	}
}

func started(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// fillForStart appends settled renewals over 30 days, four rows each, and the proxies of a listing.
func fillForStart(b *testing.B, path string) {
	b.Helper()
	l, err := ledger.Open(b.Context(), ledger.Config{Path: path, Clock: time.Now})
	started(b, err)
	defer func() { started(b, l.Close()) }()
	const group = 1000
	in := func(n int, one func(tx *ledger.Tx, i int) error) {
		for from := 0; from < n; from += group {
			started(b, l.Write(b.Context(), func(tx *ledger.Tx) error {
				for i := from; i < min(from+group, n); i++ {
					if err := one(tx, i); err != nil {
						return err
					}
				}
				return nil
			}))
		}
	}
	expires := time.Now().Add(20 * 24 * time.Hour)
	in(*startProxies, func(tx *ledger.Tx, i int) error {
		at := expires.Add(time.Duration(i) * time.Second)
		return tx.Observe(0, tables.Proxy{ProxyID: fmt.Sprintf("px_%07d", i), Status: "active", IPType: "isp", Protocol: "socks5", CountryCode: "US", Region: "Dallas", LineName: "premium", ExpiresAt: &at, SeenAt: tx.Now()})
	})
	in(*startRows/4, func(tx *ledger.Tx, i int) error {
		command := fmt.Sprintf("keep-%09d", i)
		operation, proxy := command+"/0001", fmt.Sprintf("px_%07d", i%max(*startProxies, 1))
		ref := fact.Ref{CommandID: command, OperationID: operation}
		err := tx.Append(
			fact.CommandAccepted{
				Ref: fact.Ref{CommandID: command}, Kind: fact.KindRenewal, ContentHash: command, Content: fmt.Appendf(nil, `{"id":%q,"proxy_ids":[%q],"duration_days":30}`, command, proxy), DurationDays: 30,
				Operations: []fact.Planned{{OperationID: operation, Chunk: "0001", Generation: 1, Key: "key-" + operation, ProxyIDs: []string{proxy}}},
			},
			fact.OperationSending{Ref: ref, Attempt: 1, Key: "key-" + operation, AppID: sandbox.DemoSandboxAppID, Body: `{}`, SentAt: tx.Now(), Observed: map[string]time.Time{proxy: tx.Now()}})
		if err == nil {
			_, err = tx.AppendTo(operation, 2, fact.RenewalSettled{
				Ref: ref, Status: "completed", Attempt: 1, Code: "ok",
				Lines: fact.Lines{ChargedCents: 1, Items: []fact.Line{{ProxyID: proxy, State: "succeeded", ChargedCents: 1}}},
			})
		}
		return err
	})
}
