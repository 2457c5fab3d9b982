package sandbox

import (
	"encoding/json"
	"fmt"
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
	c.counts[[3]string{method, pattern, code}]++
}

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

// control is the control interface (extension).
func (s *Server) control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /faults", controlled(s.setFault))
	mux.HandleFunc("DELETE /faults", func(w http.ResponseWriter, _ *http.Request) {
		s.faults.clear()
		respond(w, map[string]bool{"ok": true})
	})
	mux.HandleFunc("POST /clock", controlled(s.setClock))
	mux.HandleFunc("POST /keys", controlled(s.setKey))
	mux.HandleFunc("POST /wallet", controlled(s.addMoney))
	mux.HandleFunc("GET /charges", s.getCharges)
	mux.HandleFunc("GET /state", s.getState)
	return mux
}

// controlled reads a JSON body, runs do and answers {"ok":true} or 400 with
// {"error":"…"}.
func controlled[T any](do func(*T) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in T
		body, err := readBody(w, r)
		if err == nil {
			err = decodeStrict(body, &in)
		}
		if err == nil {
			err = do(&in)
		}
		if err != nil {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_ = json.NewEncoder(w).Encode(map[string]string{"error": err.Error()})
			return
		}
		respond(w, map[string]bool{"ok": true})
	}
}

func respond(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func (s *Server) setFault(f *fault) error {
	if err := f.check(); err != nil {
		return err
	}
	s.faults.add(f)
	return nil
}

type clockSetting struct {
	OffsetSeconds int64 `json:"offset_seconds"`
}

func (s *Server) setClock(in *clockSetting) error {
	const century = 100 * 366 * 24 * 3600
	if in.OffsetSeconds > century || in.OffsetSeconds < -century {
		return fmt.Errorf("offset_seconds %d is too far", in.OffsetSeconds)
	}
	s.offset.Store(in.OffsetSeconds)
	return s.persist("meta", "offset", in.OffsetSeconds)
}

type keySetting struct {
	AppID   string `json:"app_id"`
	Revoked bool   `json:"revoked"`
}

func (s *Server) setKey(in *keySetting) error {
	key := s.st.keys[in.AppID]
	if key == nil {
		return fmt.Errorf("app_id %q is unknown", in.AppID)
	}
	s.st.mu.Lock()
	key.revoked = in.Revoked
	s.st.mu.Unlock()
	return s.persist("key", in.AppID, in.Revoked)
}

type walletSetting struct {
	AccountID   string `json:"account_id"`
	Environment string `json:"environment"`
	AddCents    int64  `json:"add_cents"`
}

// addMoney tops a wallet up or takes from it; the referee, which records only
// what the API charged, has no line for it.
func (s *Server) addMoney(in *walletSetting) error {
	sp := s.st.spaces[in.AccountID+"/"+in.Environment]
	if sp == nil {
		return fmt.Errorf("no account %q in environment %q", in.AccountID, in.Environment)
	}
	s.st.mu.Lock()
	sum := sp.balance + in.AddCents
	if sum < 0 || in.AddCents > 0 && sum < sp.balance {
		s.st.mu.Unlock()
		return fmt.Errorf("the wallet holds %d cents: adding %d leaves its range", sp.balance, in.AddCents)
	}
	sp.balance = sum
	c := s.newChange()
	c.saveWallet(sp)
	seq := s.submit(c)
	s.st.mu.Unlock()
	return s.durable.wait(seq)
}

// persist stores one row and waits for it.
func (s *Server) persist(kind, id string, value any) error {
	s.st.mu.Lock()
	c := s.newChange()
	c.put(kind, id, value)
	seq := s.submit(c)
	s.st.mu.Unlock()
	return s.durable.wait(seq)
}

func (s *Server) getCharges(w http.ResponseWriter, _ *http.Request) {
	s.settleDue()
	charges, err := s.Charges()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if charges == nil {
		charges = []Charge{}
	}
	respond(w, charges)
}

// settleDue lets orders advance to the present before somebody looks.
func (s *Server) settleDue() {
	s.st.mu.Lock()
	defer s.st.mu.Unlock()
	s.advance()
}

func (s *Server) getState(w http.ResponseWriter, _ *http.Request) {
	s.settleDue()
	respond(w, s.stateCounts())
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
