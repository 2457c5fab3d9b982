package crashtest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"
)

// spoiler is a proxy between the runner and the sandbox. It replaces the sandbox's replies by those
// of its script, which the provider's document does not allow.
type spoiler struct {
	w      *world
	target string

	mu      sync.Mutex
	scripts []*script
	seen    []sighting
}

// script has one step for each request that contains a text. Requests after the last step pass
// unchanged.
type script struct {
	method string
	holds  string // in the path or in the body
	steps  []spoil
}

type spoil struct {
	executed bool   // the sandbox executes the request first
	status   int    // of the reply; 0: the sandbox's
	header   string // one more header: "Name: value"
	body     string // of the reply; "": the sandbox's
	raw      func(reply string) string
	drop     bool // the connection closes without any byte of a reply
	through  bool // request and reply pass unchanged
}

type sighting struct {
	at           time.Time
	method, path string
	throttled    bool
}

func (w *world) spoiled(scripts ...*script) *spoiler {
	w.t.Helper()
	x := &spoiler{w: w, target: w.sandbox.Sandbox, scripts: scripts}
	server := httptest.NewServer(x)
	w.t.Cleanup(server.Close)
	w.sandbox.Sandbox = server.URL
	w.configure("", "")
	return x
}

func (x *spoiler) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	step := x.next(r, string(body))
	reply := forwarded{status: http.StatusOK, header: http.Header{"Content-Type": {"application/json"}}}
	if step.through || step.executed {
		if reply, err = x.forward(r, body); err != nil {
			hangUp(out, "")
			return
		}
	}
	step.answer(out, reply)
}

type forwarded struct {
	status int
	header http.Header
	text   string
}

// next records the request and returns its step of the script.
func (x *spoiler) next(r *http.Request, body string) spoil {
	x.mu.Lock()
	defer x.mu.Unlock()
	step := spoil{through: true}
	for _, s := range x.scripts {
		if s.method == r.Method && len(s.steps) > 0 && strings.Contains(r.URL.Path+"\n"+body, s.holds) {
			step, s.steps = s.steps[0], s.steps[1:]
			break
		}
	}
	x.seen = append(x.seen, sighting{time.Now(), r.Method, r.URL.Path, step.status == http.StatusTooManyRequests})
	return step
}

func (x *spoiler) forward(r *http.Request, body []byte) (out forwarded, err error) {
	request, err := http.NewRequestWithContext(r.Context(), r.Method, x.target+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return out, err
	}
	request.Header, request.Host = r.Header.Clone(), r.Host
	reply, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return out, err
	}
	defer func() { _ = reply.Body.Close() }()
	text, err := io.ReadAll(reply.Body)
	return forwarded{reply.StatusCode, reply.Header, string(text)}, err
}

func (s spoil) answer(out http.ResponseWriter, reply forwarded) {
	if s.body != "" {
		reply.text = s.body
	}
	switch {
	case s.drop:
		hangUp(out, "")
		return
	case s.raw != nil:
		hangUp(out, s.raw(reply.text))
		return
	}
	for name, values := range reply.header {
		if name != "Content-Length" {
			out.Header()[name] = values
		}
	}
	if name, value, ok := strings.Cut(s.header, ": "); ok {
		out.Header().Set(name, value)
	}
	if s.status != 0 {
		reply.status = s.status
	}
	out.WriteHeader(reply.status)
	_, _ = io.WriteString(out, reply.text)
}

// hangUp writes these raw bytes and closes the connection.
func hangUp(out http.ResponseWriter, raw string) {
	conn, _, err := http.NewResponseController(out).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	_, _ = io.WriteString(conn, raw)
	_ = conn.Close()
}

// failure returns the body of a refusal.
func failure(code, message string) string {
	return fmt.Sprintf(`{"success":false,"code":%q,"message":%q,"data":{},"timestamp":%q,"trace_id":"tr_spoiled"}`, code, message, time.Now().UTC().Format(time.RFC3339))
}

// sightings returns a copy of the requests so far.
func (x *spoiler) sightings() []sighting {
	x.mu.Lock()
	defer x.mu.Unlock()
	return append([]sighting(nil), x.seen...)
}
