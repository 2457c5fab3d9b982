package conformance_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"perennial/upstream/conformance"
)

// limiting replies to every n-th request with 429, and does not forward it.
type limiting struct {
	http.RoundTripper
	mu         sync.Mutex
	n, every   int
	retryAfter string
	limited    int
}

func (l *limiting) RoundTrip(r *http.Request) (*http.Response, error) {
	l.mu.Lock()
	l.n++
	refuse := l.n > 3 && l.n%l.every == 0
	if refuse {
		l.limited++
	}
	l.mu.Unlock()
	if !refuse {
		return l.RoundTripper.RoundTrip(r)
	}
	body := `{"success":false,"code":"rate_limited","message":"slow down","data":{},"timestamp":"2026-11-21T12:00:00Z","trace_id":"t"}`
	return &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {l.retryAfter}}, Body: bodyOf(body), Request: r}, nil
}

// The suite waits for Retry-After, and reaches the same verdicts.
func TestRateLimitsAreRespected(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cfg := w.config(false)
	var waited time.Duration
	cfg.ControlURL = ""
	cfg.Wait = func(ctx context.Context, d time.Duration) error { waited += d; return w.clock.wait(ctx, d) }
	slow := &limiting{RoundTripper: &http.Transport{DisableKeepAlives: true}, every: 5, retryAfter: "7"}
	cfg.Transport = slow
	report := run(t, cfg)
	if slow.limited < 50 || waited < time.Duration(slow.limited)*7*time.Second {
		t.Errorf("limited %d times, waited %s", slow.limited, waited)
	}
	for _, r := range report.Results {
		if r.Verdict == conformance.Differs {
			t.Errorf("%s: %s", r.ID, r.Seen)
		}
	}
}

// If the server asks for too long a wait, the run skips the check instead of waiting for a
// shorter time.
func TestALongRetryAfterIsNotShortened(t *testing.T) {
	w := newWorld(t)
	cfg := w.config(false)
	cfg.ControlURL, cfg.Section = "", "auth."
	cfg.Transport = &limiting{RoundTripper: &http.Transport{DisableKeepAlives: true}, every: 9, retryAfter: "86400"}
	cfg.Wait = func(_ context.Context, d time.Duration) error {
		t.Errorf("waited %s", d)
		return nil
	}
	report := run(t, cfg)
	if report.Count(conformance.NotRun) == 0 || report.Count(conformance.Differs) > 0 {
		t.Errorf("%d not run, %d differ", report.Count(conformance.NotRun), report.Count(conformance.Differs))
	}
}

func TestPollingIsRespected(t *testing.T) {
	w := newWorld(t)
	next := map[string]time.Time{}
	reads := 0
	watch := defect{do: func(x *exchange) {
		if !x.detail() {
			return
		}
		reads++
		if at, waits := next[x.r.URL.Path]; waits && w.clock.Now().Before(at) {
			t.Errorf("%s was read before its time", x.r.URL.Path)
		}
		delete(next, x.r.URL.Path)
		if poll, ok := x.data()["poll_after_seconds"].(json.Number); ok {
			seconds, _ := poll.Int64()
			next[x.r.URL.Path] = w.clock.Now().Add(time.Duration(seconds) * time.Second)
		}
	}}
	cfg := w.config(false)
	cfg.BaseURL = strings.Replace(w.broken(t, w.server.SandboxURL(), watch), "127.0.0.1", "localhost", 1)
	cfg.Section = "Order status"
	if run(t, cfg); reads < 10 {
		t.Errorf("%d reads", reads)
	}
}
