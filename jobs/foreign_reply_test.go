package jobs

import (
	"bytes"
	"io"
	"net/http"
	"sync"
	"testing"

	"perennial/ledger/fact"
	"perennial/upstream"
)

// mixing answers the second POST with the reply to the first, as many times as it says.
type mixing struct {
	mu    sync.Mutex
	times int
	first []byte
}

func (m *mixing) RoundTrip(r *http.Request) (*http.Response, error) {
	reply, err := http.DefaultTransport.RoundTrip(r)
	if err != nil || r.Method != http.MethodPost {
		return reply, err
	}
	body, err := io.ReadAll(reply.Body)
	_ = reply.Body.Close()
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.first == nil:
		m.first = body
	case m.times > 0:
		m.times--
		body = m.first
	}
	reply.Body = io.NopCloser(bytes.NewReader(body))
	reply.ContentLength = int64(len(body))
	return reply, err
}

// The order number of another operation shows that the reply belongs to another request. The same
// request gets the reply that is its own.
func TestAnOrderOfAnotherOperationIsNotThisOnes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		times int
		state fact.State
	}{"once": {1, fact.StateDelivered}, "again and again": {1 << 20, fact.StateReview}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := idleRig(t)
			h.oneClock(func(c *upstream.Config) { c.Transport = &mixing{times: test.times} })
			h.bind()
			h.start()
			h.order(buyA)
			a := h.await("a", fact.StateDelivered).Operations[0]
			h.order(buyB)
			b := h.await("b", fact.StateDelivered, fact.StateReview).Operations[0]
			if b.State != test.state || b.OrderNo == a.OrderNo {
				t.Errorf("b is %s with order %s (%s); a has %s", b.State, b.OrderNo, b.Reason, a.OrderNo)
			}
			if test.state == fact.StateDelivered {
				h.settled(a.ChargedCents+b.ChargedCents, 0)
			}
		})
	}
}
