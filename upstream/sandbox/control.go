// The control interface (extension), for loopback clients alone.

package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"strconv"
	"strings"
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

// fieldError names the field that cannot be taken.
type fieldError struct {
	field string
	err   error
}

func wrong(field string, err error) error { return &fieldError{field, err} }

// Error is the field and what is wrong with it.
func (e *fieldError) Error() string { return e.field + ": " + e.err.Error() }

// Unwrap gives what is wrong without the field.
func (e *fieldError) Unwrap() error { return e.err }

// controlled reads a JSON body, runs do and answers {"ok":true} or the refusal.
func controlled[T any](do func(*T) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in T
		body, status := readBody(r)
		if status != 0 {
			respond(w, status, controlError{Error: "body: could not be read or is over 1 MiB", Field: "body"})
			return
		}
		err := decodeStrict(body, &in)
		if err == nil {
			err = do(&in)
		}
		if err == nil {
			respond(w, http.StatusOK, map[string]bool{"ok": true})
			return
		}
		out := controlError{Error: err.Error()}
		if e, ok := errors.AsType[*fieldError](err); ok {
			out.Field = e.field
		}
		respond(w, http.StatusBadRequest, out)
	}
}

// decodeStrict reads one JSON object and nothing after it; an error names the
// field.
func decodeStrict(body []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && e.Field != "" {
			return wrong(e.Field, fmt.Errorf("must be a JSON %s, not a %s", jsonName(e.Type.Kind()), e.Value))
		}
		if quoted, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
			if name, err := strconv.Unquote(quoted); err == nil {
				return wrong(shorten(name), errors.New("is not a known field"))
			}
		}
		return wrong("body", errors.New("must be a JSON object"))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return wrong("body", errors.New("has something after the JSON object"))
	}
	return nil
}

func jsonName(k reflect.Kind) string {
	switch k {
	case reflect.Bool:
		return "boolean"
	case reflect.String:
		return "string"
	case reflect.Struct, reflect.Map:
		return "object"
	default:
		return "number"
	}
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
