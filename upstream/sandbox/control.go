package sandbox

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"

	jsonv2 "github.com/go-json-experiment/json"
)

type controls struct {
	*world

	writes *writes
}

// Control serves the control interface. The body of a refusal is {"error":"…","field":"…"}.
func (s *controls) Control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /faults", controlled(s.setFault))
	mux.HandleFunc("DELETE /faults", cleared(s.faults.clear))
	mux.HandleFunc("POST /latency", controlled(s.setLatency))
	mux.HandleFunc("DELETE /latency", cleared(s.latency.clear))
	mux.HandleFunc("POST /rate", controlled(s.setRate))
	mux.HandleFunc("POST /policy", controlled(s.setPolicy))
	mux.HandleFunc("POST /moods", controlled(s.setMoods))
	mux.HandleFunc("DELETE /moods", cleared(s.moods.clear))
	mux.HandleFunc("POST /clock", controlled(s.setClock))
	mux.HandleFunc("POST /keys", controlled(s.setKey))
	mux.HandleFunc("POST /wallet", controlled(s.addMoney))
	mux.HandleFunc("POST /prices", controlled(s.setPrice))
	mux.HandleFunc("POST /accounts", controlled(s.setAccount))
	mux.HandleFunc("GET /charges", s.shows(s.allCharges))
	mux.HandleFunc("GET /state", s.shows(s.stateCounts))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !fromLoopback(r) {
			respond(w, http.StatusForbidden, controlError{Error: "only loopback may control a sandbox"})
			return
		}
		if _, pattern := mux.Handler(r); pattern == "" {
			respond(w, http.StatusNotFound, controlError{Error: r.Method + " " + shorten(r.URL.Path) + " is not part of the control interface"})
			return
		}
		mux.ServeHTTP(w, r)
	})
}

var crossOrigin = http.NewCrossOriginProtection()

// fromLoopback reports whether a request comes from a loopback address and asks for a loopback
// host name. It returns false for web pages that reach the sandbox through another host name or
// a form.
func fromLoopback(r *http.Request) bool {
	if crossOrigin.Check(r) != nil {
		return false
	}
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	peer, _, err := net.SplitHostPort(r.RemoteAddr)
	return err == nil && isLoopback(peer) && (strings.EqualFold(host, "localhost") || isLoopback(strings.Trim(host, "[]")))
}

type settings[T any] struct {
	mu   sync.Mutex
	list []T
}

func (s *settings[T]) change(do func([]T) []T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = do(s.list)
}

func (s *settings[T]) clear() { s.change(func([]T) []T { return nil }) }

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

type controlError struct {
	Error string `json:"error"`           // the field and the reason, or only the reason
	Field string `json:"field,omitempty"` // only the field's name
}

func controlled[T any](do func(*T) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in T
		body, no := readBody(r)
		if no == nil {
			no = decodeBody(body, &in, jsonv2.MatchCaseInsensitiveNames(true))
		}
		if no != nil {
			confirm(w, no)
			return
		}
		confirm(w, do(&in))
	}
}

func cleared(do func()) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		do()
		confirm(w, nil)
	}
}

func confirm(w http.ResponseWriter, err error) {
	if err == nil {
		respond(w, http.StatusOK, map[string]bool{"ok": true})
		return
	}
	out, status := controlError{Error: err.Error()}, http.StatusBadRequest
	if no, ok := errors.AsType[*refusal](err); ok {
		out.Field, status = no.field, cmp.Or(no.status, status)
	}
	respond(w, status, out)
}

func respond(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func (s *controls) setFault(f *fault) error {
	if err := f.check(s.world); err != nil {
		return err
	}
	s.faults.change(func(list []*fault) []*fault { return append(list, f) })
	return nil
}

func (s *controls) setLatency(l *latencySetting) error {
	if err := l.check(s.world); err != nil {
		return err
	}
	s.latency.change(func(list []*latencySetting) []*latencySetting {
		return append(slices.DeleteFunc(list, func(old *latencySetting) bool { return old.filter == l.filter }), l)
	})
	return nil
}

func (s *controls) setPolicy(p *struct {
	RefuseScriptAgents bool `json:"refuse_script_agents"`
}) error {
	s.refuseScripts.Store(p.RefuseScriptAgents)
	return nil
}

func (s *controls) setClock(in *struct {
	OffsetSeconds int64 `json:"offset_seconds"`
}) error {
	const century = 100 * 366 * 24 * 3600
	if in.OffsetSeconds > century || in.OffsetSeconds < -century {
		return invalid("offset_seconds", "%d is too far", in.OffsetSeconds)
	}
	return s.persist("meta", "offset", in.OffsetSeconds, func() { s.offset.Store(in.OffsetSeconds) })
}

func (s *controls) setKey(in *struct {
	AppID   string `json:"app_id"`
	Revoked bool   `json:"revoked"`
}) error {
	key := s.st.keys[in.AppID]
	if key == nil {
		return invalid("app_id", "%q is unknown", in.AppID)
	}
	return s.persist("key", in.AppID, in.Revoked, func() { key.revoked = in.Revoked })
}

// addMoney changes a wallet. It writes no line to the referee's file, which records only charges
// and refunds of the API.
func (s *controls) addMoney(in *struct {
	AccountID   string `json:"account_id"`
	Environment string `json:"environment"`
	AddCents    int64  `json:"add_cents"`
	FrozenCents *int64 `json:"frozen_cents"` // the new frozen amount; nil leaves it unchanged
}) error {
	sp, err := s.st.account(in.AccountID, in.Environment)
	if err != nil {
		return err
	}
	return s.durably(func(c *change) error {
		sum, frozen := sp.balance+in.AddCents, sp.frozen
		if sum < 0 || sum > maxWalletCents || in.AddCents > maxWalletCents {
			return invalid("add_cents", "the wallet holds %d: %d more would leave 0 to %d", sp.balance, in.AddCents, int64(maxWalletCents))
		}
		if in.FrozenCents != nil {
			frozen = *in.FrozenCents
			c.put("frozen", sp.id(), frozen)
		}
		if frozen < 0 || in.FrozenCents != nil && frozen > sum {
			return invalid("frozen_cents", "must be 0 to the %d that the wallet holds", sum)
		}
		keepPast(s.world, &sp.past, new(sp.balance))
		sp.balance, sp.frozen = sum, frozen
		c.saveWallet(sp)
		return nil
	})
}

func (s *world) persist(kind, id string, value any, set func()) error {
	return s.durably(func(c *change) error {
		set()
		c.put(kind, id, value)
		return nil
	})
}

// durably makes a change with the lock held, and waits until the change is durable.
func (s *world) durably(do func(*change) error) error {
	c := s.newChange()
	s.st.mu.Lock()
	if err := do(c); err != nil {
		s.st.mu.Unlock()
		return err
	}
	seq := s.submit(c)
	s.st.mu.Unlock()
	return s.durable.wait(seq)
}

type counters struct {
	mu     sync.Mutex
	counts map[string]map[string]int64 // first key: method and route; second key: code
}

func (c *counters) add(pattern, method, code string) {
	if pattern == "" {
		pattern = "other"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !usualMethods[method] {
		method = "OTHER" // unknown methods must not fill the map
	}
	name := method + " " + pattern
	if c.counts[name] == nil {
		c.counts[name] = map[string]int64{}
	}
	c.counts[name][code]++
}

var usualMethods = map[string]bool{http.MethodGet: true, http.MethodPost: true, http.MethodPut: true, http.MethodPatch: true,
	http.MethodDelete: true, http.MethodHead: true, http.MethodOptions: true}

func (c *counters) snapshot() map[string]map[string]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]map[string]int64{}
	for name, codes := range c.counts {
		out[name] = maps.Clone(codes)
	}
	return out
}

// shows returns a handler. The handler first executes the order steps that are due. It then
// replies with the value from the function read.
func (s *controls) shows(read func() (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		s.st.mu.Lock()
		s.writes.advance()
		s.st.mu.Unlock()
		shown, err := read()
		if err == nil {
			err = s.durable.wait(s.durable.last()) // a crash must not undo what the reply shows
		}
		if err != nil {
			respond(w, http.StatusInternalServerError, controlError{Error: err.Error()})
			return
		}
		respond(w, http.StatusOK, shown)
	}
}

func (s *controls) allCharges() (any, error) {
	charges, err := s.Charges()
	return append([]Charge{}, charges...), err // without charges the reply is [], not null
}

func (s *controls) stateCounts() (any, error) {
	s.st.mu.Lock()
	defer s.st.mu.Unlock()
	records := map[string]int{"completed": 0, "processing": 0, "interrupted": 0}
	wallets := map[string]int64{}
	for id, sp := range s.st.spaces {
		wallets[id] = sp.balance
		for _, rec := range sp.records {
			switch {
			case rec.State == recordInterrupted:
				records["interrupted"]++
			case !rec.durable:
				records["processing"]++
			default:
				records["completed"]++
			}
		}
	}
	return map[string]any{"orders": len(s.st.orders), "proxies": len(s.st.proxies), "idempotency_records": records,
		"wallets": wallets, "requests": s.counts.snapshot(), "now": s.now()}, nil
}

// setPrice sets an account's own price for an offer (extension). The price applies immediately.
func (s *controls) setPrice(in *struct {
	AccountID      string `json:"account_id"`
	OfferCode      string `json:"offer_code"`
	UnitPriceCents int64  `json:"unit_price_cents"`
}) error {
	sp, err := s.st.account(in.AccountID, envSandbox)
	switch {
	case err != nil:
		return err
	case s.st.byCode[in.OfferCode] == nil:
		return invalid("offer_code", "%q is unknown", in.OfferCode)
	case in.UnitPriceCents <= 0 || in.UnitPriceCents > maxUnitPriceCents:
		return invalid("unit_price_cents", "must be 1 to %d", int64(maxUnitPriceCents))
	}
	return s.persist("price", in.AccountID+"/"+in.OfferCode, in.UnitPriceCents, func() { sp.prices[in.OfferCode] = in.UnitPriceCents })
}

// setAccount changes the status of an account (extension).
func (s *controls) setAccount(in *struct {
	AccountID string `json:"account_id"`
	Status    string `json:"status"`
}) error {
	sp, err := s.st.account(in.AccountID, envSandbox)
	if err != nil {
		return err
	}
	if !printable(in.Status, maxHeaderText) {
		return invalid("status", "is missing, or is not printable ASCII")
	}
	return s.persist("account", in.AccountID, in.Status, func() { *sp.status = in.Status })
}
