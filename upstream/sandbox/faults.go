package sandbox

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"perennial/ledger/sleep"
)

type filter struct {
	Environment string `json:"environment"`
	AccountID   string `json:"account_id"` // the owner of the App ID, before any verification
	Method      string `json:"method"`
	Path        string `json:"path"` // a path, a route such as /api/v1/orders/{order_no}, or a prefix that ends in *
}

func (f *filter) matches(r *request) bool {
	prefix, isPrefix := strings.CutSuffix(f.Path, "*")
	return (f.Environment == "" || f.Environment == r.env) &&
		(f.AccountID == "" || f.AccountID == r.claimed) &&
		(f.Method == "" || strings.EqualFold(f.Method, r.http.Method)) &&
		(f.Path == "" || f.Path == r.path || f.Path == r.rt.pattern || isPrefix && strings.HasPrefix(r.path, prefix))
}

// check returns an error for an invalid filter. A misspelt filter would match no request, and a
// test could pass for the wrong reason.
func (f *filter) check(s *world) error {
	if f.Environment != "" && f.Environment != envSandbox && f.Environment != envProduction {
		return invalid("environment", `must be "sandbox" or "production"`)
	}
	if f.AccountID != "" && s.st.spaces[f.AccountID+"/"+envSandbox] == nil {
		return invalid("account_id", "%q is unknown", f.AccountID)
	}
	if strings.ContainsFunc(f.Method, func(c rune) bool { return c < 'A' || c > 'z' || c > 'Z' && c < 'a' }) {
		return invalid("method", "%q is no method", f.Method)
	}
	if f.Path != "" && f.Path != "*" && !strings.HasPrefix(f.Path, "/") {
		return invalid("path", "must begin with a slash")
	}
	return nil
}

// fault is the body of POST /faults (extension).
type fault struct {
	filter

	Skip  int    `json:"skip"`  // the number of matching requests before the fault applies
	Times int    `json:"times"` // the number of requests with the fault; 0 means 1; a negative number means no limit
	Fault string `json:"fault"`

	Seconds    float64         `json:"seconds"`     // for the fault hang
	Code       string          `json:"code"`        // for the fault code
	HTTPStatus int             `json:"http_status"` // for the fault code
	RetryAfter string          `json:"retry_after"` // for the fault code
	Message    string          `json:"message"`     // for the fault code
	Executed   *bool           `json:"executed"`    // default: false for code, true for hang and unresolved_record
	Failed     json.RawMessage `json:"failed"`      // for the fault renewal: ids or a count
	Unresolved json.RawMessage `json:"unresolved"`  // for the fault renewal: ids or a count

	renewal renewalFault
}

// faultKinds says for each fault whether the sandbox executes the request by default.
var faultKinds = map[string]bool{"drop_before": false, "drop_after": true, "error_before": false, "error_after": true, "hang": true,
	"truncate": true, "garbage": true, "html": false, "code": false, "unresolved_record": true, "renewal": true}

func (f *fault) check(s *world) error {
	if _, known := faultKinds[f.Fault]; !known {
		return invalid("fault", "%q is unknown", f.Fault)
	}
	err := f.filter.check(s)
	switch {
	case err != nil:
		return err
	case f.Skip < 0:
		return invalid("skip", "must not be negative")
	case f.Fault == "code" && !printable(f.Code, maxHeaderText):
		return invalid("code", "is missing, or is not printable ASCII")
	case f.HTTPStatus != 0 && (f.HTTPStatus < http.StatusOK || f.HTTPStatus > 599):
		return invalid("http_status", "must be 200 to 599")
	case f.RetryAfter != "" && !printable(f.RetryAfter, maxHeaderText):
		return invalid("retry_after", "is no header text")
	case f.Seconds < 0 || f.Seconds > maxHangSeconds:
		return invalid("seconds", "must be 0 to 86400")
	}
	f.Times = cmp.Or(f.Times, 1)
	return f.checkPicks()
}

func (f *fault) checkPicks() (err error) {
	if f.renewal.failed, err = parsePick(f.Failed); err != nil {
		return invalid("failed", "%v", err)
	}
	if f.renewal.unresolved, err = parsePick(f.Unresolved); err != nil {
		return invalid("unresolved", "%v", err)
	}
	if f.Fault == "renewal" && len(f.Failed) == 0 && len(f.Unresolved) == 0 {
		return invalid("failed", "or unresolved must say which ids")
	}
	return nil
}

const (
	maxHangSeconds = 24 * 3600
	maxHeaderText  = 256 // bytes
)

func (f *fault) executes() bool {
	if f.Executed != nil && slices.Contains([]string{"code", "hang", "unresolved_record"}, f.Fault) {
		return *f.Executed
	}
	executed, known := faultKinds[f.Fault]
	return executed || !known
}

func (s *front) takeFault(r *request) (*fault, renewalFault) {
	var chosen, shapes *fault
	s.faults.change(func(list []*fault) []*fault {
		for _, f := range list {
			slot := &chosen
			if f.Fault == "renewal" {
				slot = &shapes
			}
			switch {
			case !f.matches(r) || *slot != nil || slot == &shapes && r.rt.name != routeRenew:
			case f.Skip > 0:
				f.Skip--
			default:
				f.Times = max(f.Times-1, -1)
				*slot = f
			}
		}
		return slices.DeleteFunc(list, func(f *fault) bool { return f.Times == 0 })
	})
	none := &fault{}
	return cmp.Or(chosen, none), cmp.Or(shapes, none).renewal
}

type renewalFault struct{ failed, unresolved pick }

// pick is a list of ids, or the number of ids at the start of a list.
type pick struct {
	ids   []string
	count int
}

func parsePick(raw json.RawMessage) (out pick, err error) {
	switch {
	case len(raw) == 0:
	case json.Unmarshal(raw, &out.count) == nil && out.count >= 0:
	case json.Unmarshal(raw, &out.ids) != nil:
		return pick{}, errors.New("must be a list of ids or a count")
	}
	return out, nil
}

// verdicts returns the result for each proxy. Counts apply from the start of the list, first to
// the failed proxies and then to the unresolved ones.
func (f renewalFault) verdicts(chosen []*proxy) []string {
	out := make([]string, len(chosen))
	failed, unresolved := f.failed.count, f.unresolved.count
	for i, p := range chosen {
		switch {
		case slices.Contains(f.failed.ids, p.ID):
			out[i] = "failed"
		case slices.Contains(f.unresolved.ids, p.ID):
			out[i] = "unresolved"
		case failed > 0:
			out[i] = "failed"
			failed--
		case unresolved > 0:
			out[i] = "unresolved"
			unresolved--
		default:
			out[i] = "succeeded"
		}
	}
	return out
}

// hang delays the reply. If the request was executed, a second request with the same idempotency
// key gets idempotency_processing during the delay.
func (s *front) hang(w http.ResponseWriter, r *request, f *fault) {
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Time{})
	defer func() { _ = control.SetWriteDeadline(time.Now().Add(writeTimeout)) }()
	_, _ = sleep.OrWoken(r.http.Context(), time.Duration(f.Seconds*float64(time.Second)), s.closing)
}

func (s *front) conclude(w http.ResponseWriter, r *request, f *fault, out reply) {
	counted := "fault:" + f.Fault
	if f.Fault == "" || f.Fault == "hang" {
		counted = out.code
	}
	s.counts.add(r.rt.pattern, r.http.Method, counted)
	switch f.Fault {
	case "", "hang":
		s.send(w, r, out, "")
	case "drop_before", "drop_after":
		reset(w)
	case "unresolved_record":
		if out.settle == nil { // the request was refused, or its key already had a record
			s.send(w, r, out, f.RetryAfter)
			return
		}
		reset(w)
	case "error_before", "error_after":
		http.Error(w, "Internal Server Error", http.StatusInternalServerError)
	case "garbage":
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"success":tru`))
	case "html":
		firewall(w)
	case "truncate":
		truncate(w, out)
	case "code":
		status, message := cmp.Or(f.HTTPStatus, statusOf(f.Code)), cmp.Or(f.Message, "Injected by the sandbox.")
		s.send(w, r, s.envelope(status, f.Code, message, nil), f.RetryAfter)
	}
}

func truncate(w http.ResponseWriter, out reply) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(out.body)))
	w.WriteHeader(out.status)
	_, _ = w.Write(out.body[:len(out.body)/2])
	_ = http.NewResponseController(w).Flush()
	if conn, buf, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = buf.Flush()
		_ = conn.Close()
	}
}

func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // net/http aborts the connection after this panic
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

const maxLatency = 10 * time.Minute

// latencySetting is the body of POST /latency (extension).
type latencySetting struct {
	filter

	Milliseconds       int64 `json:"milliseconds"`
	JitterMilliseconds int64 `json:"jitter_milliseconds"` // the largest random addition, uniformly distributed
}

func (l *latencySetting) check(s *world) error {
	most := maxLatency.Milliseconds()
	if l.Milliseconds < 0 || l.Milliseconds > most {
		return invalid("milliseconds", "must be 0 to 600000")
	}
	if l.JitterMilliseconds < 0 || l.JitterMilliseconds > most {
		return invalid("jitter_milliseconds", "must be 0 to 600000")
	}
	return l.filter.check(s)
}

// delay waits before a request as long as the newest matching setting says. As on a slow
// network, the sandbox executes the request afterwards even if the client has closed its
// connection.
func (s *front) delay(r *request) {
	var wait time.Duration
	s.latency.change(func(list []*latencySetting) []*latencySetting {
		for _, l := range slices.Backward(list) {
			if l.matches(r) {
				wait = time.Duration(l.Milliseconds+rand.Int64N(l.JitterMilliseconds+1)) * time.Millisecond
				break
			}
		}
		return list
	})
	if wait > 0 {
		_, _ = sleep.OrWoken(context.WithoutCancel(r.http.Context()), wait, s.closing)
	}
}
