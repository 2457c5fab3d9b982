// A webhook endpoint that checks every signature and answers as the test says.

package crashtest

import (
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

const hookSecret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="

// hook is an endpoint. It checks every signature, and records each event that it answers with 2xx.
type hook struct {
	t   testing.TB
	url string

	mu      sync.Mutex
	random  *rand.Rand // nil: every answer is 204
	status  int        // of every answer; 0: as random says
	bodies  map[string]string
	order   []string // ids in the order of their first 2xx
	times   map[string]int
	total   int
	arrival chan struct{} // closed with each request
}

func newHook(t testing.TB) *hook {
	t.Helper()
	h := &hook{t: t, bodies: map[string]string{}, times: map[string]int{}, arrival: make(chan struct{})}
	verifier, err := standardwebhooks.NewWebhook(hookSecret)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // its runner was killed
		}
		if err := verifier.Verify(body, r.Header); err != nil || r.URL.Path != "/h00k-t0ken" {
			t.Errorf("%s: %v\n%v", r.URL.Path, err, r.Header)
		}
		h.answer(w, r.Header.Get("webhook-id"), string(body))
	}))
	t.Cleanup(server.Close)
	h.url = server.URL + "/h00k-t0ken"
	return h
}

// answer records a request and answers it, or closes the connection.
func (h *hook) answer(w http.ResponseWriter, id, body string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.total++
	close(h.arrival)
	h.arrival = make(chan struct{})
	status := h.status
	if status == 0 && h.random != nil {
		switch h.random.IntN(6) {
		case 0:
			status = http.StatusInternalServerError
		case 1:
			status = http.StatusTooManyRequests
		case 2: // the reply is lost
			panic(http.ErrAbortHandler)
		}
	}
	if status == 0 {
		status = http.StatusNoContent
	}
	if status/100 == 2 {
		if h.times[id]++; h.times[id] == 1 {
			h.order = append(h.order, id)
			h.bodies[id] = body
		}
	}
	w.WriteHeader(status)
}

// behave sets how later requests are answered.
func (h *hook) behave(random *rand.Rand, status int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.random, h.status = random, status
}

// await waits for this many more requests.
func (h *hook) await(more int) {
	h.t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	h.mu.Lock()
	until := h.total + more
	h.mu.Unlock()
	for {
		h.mu.Lock()
		total, arrival := h.total, h.arrival
		h.mu.Unlock()
		if total >= until {
			return
		}
		select {
		case <-arrival:
		case <-late.C:
			h.t.Fatalf("only %d requests came", total)
		}
	}
}

func (h *hook) arrived() (order []string, times map[string]int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.order), maps.Clone(h.times)
}

// config returns the part of perennial.yaml with this endpoint.
func (h *hook) config(more string) string {
	return fmt.Sprintf("webhooks:\n  - {name: billing, url: %q, secret_file: hook.secret, timeout: 5s%s}\n", h.url, more)
}

// hooked is the part of a CloudEvent that ordered needs.
type hooked struct {
	ID   string
	Data struct {
		CommandID string `json:"command_id"`
		Ledger    struct{ Seq int }
	}
}

// hasAll waits until every event on the stream has arrived, byte for byte.
func (h *hook) hasAll(w *world) {
	h.t.Helper()
	await(h.t, "the endpoint has every event", func() bool {
		stored := w.mustCLI("watch", "--stored", "-o", "json")
		h.mu.Lock()
		defer h.mu.Unlock()
		for line := range strings.Lines(stored) {
			if h.bodies[decode[hooked](h.t, line).ID] != strings.TrimSpace(line) {
				return false
			}
		}
		return true
	})
}

// ordered checks that each command's events arrived in the journal's order.
func (h *hook) ordered() {
	h.t.Helper()
	order, _ := h.arrived()
	last := map[string]int{}
	for _, id := range order {
		e := decode[hooked](h.t, h.bodies[id])
		if of := e.Data.CommandID; e.Data.Ledger.Seq < last[of] && of != "" {
			h.t.Errorf("event %d of command %s arrived behind event %d", e.Data.Ledger.Seq, of, last[of])
		}
		last[e.Data.CommandID] = e.Data.Ledger.Seq
	}
}
