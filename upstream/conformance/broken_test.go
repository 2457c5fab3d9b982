package conformance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"perennial/upstream/conformance"
)

// broken returns a proxy in front of the sandbox that applies a defect to every reply.
func (w *world) broken(t testing.TB, target string, d defect) string {
	t.Helper()
	var mu sync.Mutex
	seen := map[string]int{}
	s := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		status, header, raw, err := forward(target, r)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		x := &exchange{w: w, r: r, status: status, header: header, seen: seen}
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.UseNumber()
		if dec.Decode(&x.body) == nil {
			mu.Lock()
			d.do(x)
			mu.Unlock()
			if raw, _ = json.Marshal(x.body); x.raw != nil {
				raw = x.raw
			}
		}
		for _, name := range []string{"Content-Type", "Retry-After"} {
			if v := x.header.Get(name); v != "" {
				out.Header().Set(name, v)
			}
		}
		out.WriteHeader(x.status)
		_, _ = out.Write(raw)
	}))
	t.Cleanup(func() { s.Close(); toSandbox.CloseIdleConnections() })
	return s.URL
}

var toSandbox = &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 16}

func forward(target string, r *http.Request) (int, http.Header, []byte, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, nil, nil, err
	}
	req, err := http.NewRequestWithContext(r.Context(), r.Method, target+r.RequestURI, io.NopCloser(bytes.NewReader(body)))
	if err != nil {
		return 0, nil, nil, err
	}
	req.Header, req.Host, req.ContentLength = r.Header.Clone(), r.Host, int64(len(body))
	resp, err := toSandbox.RoundTrip(req)
	if err != nil {
		return 0, nil, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header, raw, err
}

// Each defect changes the verdicts of the checks that should report it. Without a defect, the
// proxy changes no verdict.
func TestEveryDefectIsCaught(t *testing.T) {
	t.Parallel()
	for _, d := range append([]defect{{name: "none", do: func(*exchange) {}}}, defects...) {
		t.Run(d.name, func(t *testing.T) {
			w := newWorld(t)
			cfg := w.config(false)
			cfg.BaseURL = strings.Replace(w.broken(t, w.server.SandboxURL(), d), "127.0.0.1", "localhost", 1)
			if d.caught != nil { // also buy something, so that the lists are not empty
				cfg.Section = strings.Join(append(d.caught, "order.plain.debited", "orders.stable"), ",")
			}
			cfg.OtherBaseURL = w.broken(t, w.server.ProductionURL(), d)
			report, err := conformance.Run(context.Background(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			verdicts := map[string]conformance.Result{}
			for _, r := range report.Results {
				verdicts[r.ID] = r
				if d.caught == nil && r.Verdict != conformance.OK && r.Verdict != conformance.NotShown {
					t.Errorf("%s: %s: %s", r.ID, r.Verdict, r.Seen)
				}
			}
			for _, id := range d.caught {
				if verdicts[id].Verdict != conformance.Differs {
					t.Errorf("%s: %q: %s", id, verdicts[id].Verdict, verdicts[id].Seen)
				}
			}
		})
	}
}

func bodyOf(text string) io.ReadCloser { return io.NopCloser(strings.NewReader(text)) }
