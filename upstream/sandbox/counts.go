// Counters of requests, and the control interface's views of charges and state.

package sandbox

import (
	"net/http"
	"sync"
)

// counters count requests by route and code.
type counters struct {
	mu     sync.Mutex
	counts map[[3]string]int64 // method, route, code
}

func (c *counters) add(pattern, method, code string) {
	if pattern == "" {
		pattern = "other"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = map[[3]string]int64{}
	}
	if !usualMethods[method] {
		method = "OTHER" // unknown methods must not fill the map
	}
	c.counts[[3]string{method, pattern, code}]++
}

var usualMethods = map[string]bool{http.MethodGet: true, http.MethodPost: true, http.MethodPut: true, http.MethodPatch: true,
	http.MethodDelete: true, http.MethodHead: true, http.MethodOptions: true}

func (c *counters) snapshot() map[string]map[string]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]map[string]int64{}
	for key, n := range c.counts {
		name := key[0] + " " + key[1]
		if out[name] == nil {
			out[name] = map[string]int64{}
		}
		out[name][key[2]] += n
	}
	return out
}

func (s *Server) getCharges(w http.ResponseWriter, _ *http.Request) {
	s.settleDue()
	charges, err := s.Charges()
	if err != nil {
		respond(w, http.StatusInternalServerError, controlError{Error: err.Error()})
		return
	}
	if charges == nil {
		charges = []Charge{}
	}
	respond(w, http.StatusOK, charges)
}

// settleDue lets orders advance to the present before they are read.
func (s *Server) settleDue() {
	s.st.mu.Lock()
	defer s.st.mu.Unlock()
	s.advance()
}

func (s *Server) getState(w http.ResponseWriter, _ *http.Request) {
	s.settleDue()
	counts := s.stateCounts()
	if err := s.durable.wait(s.durable.last()); err != nil { // nothing is shown that a crash could take back
		respond(w, http.StatusInternalServerError, controlError{Error: err.Error()})
		return
	}
	respond(w, http.StatusOK, counts)
}

func (s *Server) stateCounts() map[string]any {
	s.st.mu.Lock()
	defer s.st.mu.Unlock()
	records := map[string]int{"completed": 0, "processing": 0, "interrupted": 0}
	wallets := map[string]int64{}
	for id, sp := range s.st.spaces {
		wallets[id] = sp.balance
		for _, rec := range sp.records {
			switch {
			case rec.state == recordInterrupted:
				records["interrupted"]++
			case !rec.durable:
				records["processing"]++
			default:
				records["completed"]++
			}
		}
	}
	return map[string]any{"orders": len(s.st.orders), "proxies": len(s.st.proxies), "idempotency_records": records,
		"wallets": wallets, "requests": s.counts.snapshot(), "now": s.now()}
}
