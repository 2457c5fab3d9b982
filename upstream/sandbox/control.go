// The control interface (extension), for loopback clients alone.

package sandbox

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
)

// control is the control interface (extension). Whatever it answers is JSON; a
// refusal is {"error":"…","field":"…"}.
func (s *Server) control() http.Handler {
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
	mux.HandleFunc("GET /charges", s.getCharges)
	mux.HandleFunc("GET /state", s.getState)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !fromHere(r) {
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

// crossOrigin refuses what a browser sends for a page of another origin.
var crossOrigin = http.NewCrossOriginProtection()

// fromHere wants a loopback peer and a loopback name: a page in a browser, led
// here by another name or sending its forms here, is refused.
func fromHere(r *http.Request) bool {
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

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// controlError is a refusal of the control interface.
type controlError struct {
	Error string `json:"error"`           // a whole sentence, with the field
	Field string `json:"field,omitempty"` // the field alone
}

// controlled reads a JSON body, runs do and answers {"ok":true} or the refusal.
func controlled[T any](do func(*T) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in T
		body, status := readBody(r)
		if status != 0 {
			respond(w, status, controlError{Error: "body: could not be read or is over 1 MiB", Field: "body"})
			return
		}
		if no := decodeBody(body, &in, jsonv2.MatchCaseInsensitiveNames(true)); no != nil {
			refuseControl(w, no)
		} else if err := do(&in); err != nil {
			refuseControl(w, err)
		} else {
			respond(w, http.StatusOK, map[string]bool{"ok": true})
		}
	}
}

func refuseControl(w http.ResponseWriter, err error) {
	out := controlError{Error: err.Error()}
	if no, ok := errors.AsType[*refusal](err); ok {
		out.Field = no.field
	}
	respond(w, http.StatusBadRequest, out)
}

func cleared(do func()) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		do()
		respond(w, http.StatusOK, map[string]bool{"ok": true})
	}
}

func respond(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
