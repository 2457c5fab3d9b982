package sandbox_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"perennial/upstream"
)

// raw is one request that the upstream client would never send.
type raw struct {
	method, target, body string // target: path and query as sent
	app                  string // default: alpha's sandbox key
	key                  string // Idempotency-Key
	stamp, nonce         string // default: now, fresh
	signedBody           string // default: body
	header               map[string]string
}

// seen is a reply, with its envelope if there is one.
type seen struct {
	status   int
	header   http.Header
	body     string
	Success  bool
	Code     string
	Data     json.RawMessage
	TraceID  string `json:"trace_id"`
	envelope bool
}

func (s *seen) wrongField(field string) bool {
	var data struct{ Errors map[string][]string }
	return s.Code == "validation_error" && json.Unmarshal(s.Data, &data) == nil && len(data.Errors[field]) > 0 && data.Errors[field][0] != ""
}

var nonces atomic.Int64

// text returns the signed request as sent.
func (q raw) text(host string, now time.Time) string {
	if q.app == "" {
		q.app = alphaSandbox
	}
	if q.stamp == "" {
		q.stamp = now.UTC().Format(time.RFC3339)
	}
	if q.nonce == "" {
		q.nonce = fmt.Sprint("nonce-", nonces.Add(1))
	}
	if q.signedBody == "" {
		q.signedBody = q.body
	}
	path, query, _ := strings.Cut(q.target, "?")
	signedPath := path
	if u, err := url.Parse(path); err == nil && u.Host != "" {
		signedPath = u.EscapedPath()
	}
	name, _, _ := strings.Cut(host, ":")
	signature := upstream.Sign(secret, upstream.CanonicalString(q.method, name, signedPath, upstream.CanonicalQuery(query), q.stamp, q.nonce,
		upstream.BodyHash([]byte(q.signedBody))))
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\nX-API-AppId: %s\r\nX-API-Timestamp: %s\r\nX-API-Nonce: %s\r\nX-API-Signature: %s\r\n",
		q.method, q.target, host, q.app, q.stamp, q.nonce, signature)
	if q.key != "" {
		fmt.Fprintf(&b, "Idempotency-Key: %s\r\n", q.key)
	}
	for name, value := range q.header {
		fmt.Fprintf(&b, "%s: %s\r\n", name, value)
	}
	if q.body != "" || q.method == http.MethodPost {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(q.body))
	}
	return b.String() + "\r\n" + q.body
}

// send sends one request on a new connection and reads the reply.
func (h *rig) send(q raw) *seen {
	h.t.Helper()
	return h.sendTo(h.s.SandboxURL(), q)
}

func (h *rig) sendTo(base string, q raw) *seen {
	h.t.Helper()
	host := strings.TrimPrefix(base, "http://")
	out, err := exchange(host, q.text(host, h.clock.Now()), q.method)
	if err != nil {
		h.t.Fatalf("%s %s: %v", q.method, q.target, err)
	}
	return out
}

// exchange sends text unchanged and reads one reply.
func exchange(host, text, method string) (*seen, error) {
	conn, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", host)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	go func() { _, _ = io.WriteString(conn, text) }() // a refusal may arrive before the request is complete
	return readSeen(bufio.NewReader(conn), method)
}

func readSeen(in *bufio.Reader, method string) (*seen, error) {
	resp, err := http.ReadResponse(in, &http.Request{Method: method})
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	out := &seen{status: resp.StatusCode, header: resp.Header, body: string(body)}
	var shape map[string]json.RawMessage
	if json.Unmarshal(body, &shape) == nil && json.Unmarshal(body, out) == nil {
		out.envelope = len(shape) == 6 && shape["message"] != nil && shape["timestamp"] != nil && out.TraceID != "" && shape["data"][0] == '{'
	}
	return out, nil
}

func order(body string) raw {
	return raw{method: http.MethodPost, target: "/api/v1/orders", body: body, key: fmt.Sprint("key-", nonces.Add(1)),
		header: map[string]string{"Content-Type": "application/json"}}
}

func renew(body string) raw {
	q := order(body)
	q.target = "/api/v1/proxies/renew"
	return q
}

func get(target string) raw { return raw{method: http.MethodGet, target: target} }

func (h *rig) wants(name string, got *seen, status int, code string) {
	h.t.Helper()
	if got.status != status || got.Code != code || !got.envelope {
		h.t.Errorf("%s: want %d %s, got %d %s (%s)", name, status, code, got.status, got.Code, got.body)
	}
}

func (h *rig) wantsField(name string, got *seen, field string) {
	h.t.Helper()
	if !got.wrongField(field) || !got.envelope {
		h.t.Errorf("%s: want validation_error on %s, got %d %s", name, field, got.status, got.body)
	}
}
