package web

import (
	"encoding/json"
	"flag"
	"fmt"
	"testing"
	"time"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
)

var (
	massOperations = flag.Int("pages.operations", 100_000, "renewals in the ledger of BenchmarkPages and TestBrowserPagesOfMany")
	massProxies    = flag.Int("pages.proxies", 100_000, "proxies in it, over 60 days; those of the renewals among them")
)

// fill adds the renewals and proxies of the flags.
func fill(b testing.TB, h *rig) {
	b.Helper()
	between := 60 * 24 * time.Hour / time.Duration(*massProxies)
	for from := 0; from < max(*massOperations, *massProxies); from += 500 {
		check(b, h.main.Write(b.Context(), func(tx *ledger.Tx) error {
			for i := from; i < from+500; i++ {
				command, proxy, expires := fmt.Sprintf("mass-%d", i), fmt.Sprintf("px_mass_%d", i), noon.Add(time.Duration(i)*between)
				if err := tx.Observe(1, tables.Proxy{ProxyID: proxy, CountryCode: "US", ExpiresAt: &expires, SeenAt: noon}); err != nil {
					return err
				}
				if i >= *massOperations {
					continue
				}
				ref := fact.Ref{CommandID: command, OperationID: command + "/0001"}
				labels := map[string]string{"team": []string{"red", "blue"}[i%2]}
				err := tx.Append(
					fact.CommandAccepted{Ref: fact.Ref{CommandID: command, Labels: labels}, Kind: fact.KindRenewal, Content: json.RawMessage(`{}`), DurationDays: 30,
						Operations: []fact.Planned{{OperationID: ref.OperationID, Chunk: "0001", Generation: 1, Key: "key-" + command, ProxyIDs: []string{proxy}}}},
					fact.OperationSending{Ref: ref, Attempt: 1, Key: "key-" + command, Body: "{}", SentAt: noon},
					fact.RenewalSettled{Ref: ref, Status: "completed", Attempt: 1, Lines: fact.Lines{ChargedCents: 300, Items: []fact.Line{{ProxyID: proxy, State: fact.LineSucceeded, ChargedCents: 300}}}})
				if err != nil {
					return err
				}
			}
			return nil
		}))
	}
}

// BenchmarkPages measures how long each page takes with many renewals and proxies in the ledger,
// and how long its first figures take.
func BenchmarkPages(b *testing.B) {
	h := newRig(b)
	fill(b, h)
	if n, err := h.main.Metrics.CountExpiring(b.Context(), []time.Time{end}); err != nil || n[0] < int64(*massProxies) {
		b.Fatal(n, err)
	}
	h.signIn(h.client, Person{Name: "ada", Role: Operator})
	for _, path := range append(paths, "/a/main/operation?id=mass-77", "/a/main/proxies?after=px_mass_5", "/a/main/proxies?q=none", "/a/main/proxies?country=de", "/a/main/proxies?label=team%3Dred", "/a/main/proxies?state=in+review", "/a/main/proxies?state=not+scheduled", "/a/main/proxies?schedule=none", "/a/main/operations?state=waiting",
		"/a/main/operations?state=delivered", "/a/main/operations?state=completed", "/a/main/operations?state=failed&kind=renewal", "/a/main/operations?label=team%3Dred", "/a/main/operations?schedule=keep&state=completed",
		"/a/main/operations?from=2026-11-20&until=2026-11-21&kind=order", "/a/main/money?before=1000", "/a/main/log?before=5000") {
		b.Run(path, func(b *testing.B) {
			began := time.Now()
			h.settled(path)
			made := time.Since(began)
			defer func() { b.ReportMetric(float64(made.Milliseconds()), "ms/first") }()
			for b.Loop() {
				if code, body, _ := h.get(path); code != 200 {
					b.Fatal(code, body)
				}
			}
		})
	}
}
