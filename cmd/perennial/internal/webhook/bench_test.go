package webhook

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// BenchmarkDeliveries measures how many events a second a receiver on this machine gets, each of
// another command.
func BenchmarkDeliveries(b *testing.B) {
	for _, concurrency := range []int{1, 4, 16} {
		b.Run(fmt.Sprint(concurrency), func(b *testing.B) {
			server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
			}))
			defer server.Close()
			transport := NewTransport(concurrency)
			defer transport.CloseIdleConnections()
			r := newRig(fine)
			r.at.URL, r.at.Transport, r.Concurrency = server.URL, transport, concurrency
			for n := range b.N {
				r.h.happen(fmt.Sprint(n), "command.finished")
			}
			ctx, cancel := context.WithCancel(b.Context())
			delivered := 0
			r.Attempted = func(Reply) {
				if delivered++; delivered == b.N {
					cancel()
				}
			}
			b.ResetTimer()
			r.Run(ctx)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}
