package upstream_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"go.uber.org/goleak"

	"perennial/upstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testSecret = "never-print-this"

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func clientOf(t testing.TB, baseURL string, change ...func(*upstream.Config)) *upstream.Client {
	t.Helper()
	cfg := upstream.Config{BaseURL: baseURL, AppID: "sbx_app_test", Secret: testSecret, Clock: func() time.Time { return noon }}
	for _, f := range change {
		f(&cfg)
	}
	c, err := upstream.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func serve(t testing.TB, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func envelope(code, data string) string {
	return fmt.Sprintf(`{"success":%t,"code":%q,"message":"m","data":%s,"timestamp":"2026-11-21T12:00:01Z","trace_id":"trc_1"}`, code == "ok", code, data)
}

func answering(status int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

var renewWrite = upstream.Write{Kind: upstream.WriteRenewal, Key: "k", Body: []byte(`{"proxy_ids":["px_1"],"duration_days":30}`)}

func TestTrap01APostIsNeverResent(t *testing.T) {
	var requests atomic.Int64
	base := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) == 1 {
			_, _ = io.WriteString(w, envelope("ok", `{}`)) // leaves a connection that can be reused
			return
		}
		_, _ = io.ReadAll(r.Body)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	})
	c := clientOf(t, base)
	c.Post(context.Background(), renewWrite)
	r := c.Post(context.Background(), renewWrite)
	if !r.Sent || r.HTTPStatus != 0 || r.Failure == "" {
		t.Errorf("%+v", r)
	}
	if requests.Load() != 2 {
		t.Errorf("%d requests for two posts", requests.Load())
	}
}

// A server closes a connection when it likes. net/http would send a GET again as it is, and the
// provider refuses a nonce that it has seen.
func TestAReadThatIsSentAgainHasANewNonce(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]int{}
	base := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen[r.Header.Get("X-API-Nonce")]++
		if len(seen) == 2 && r.ContentLength == 0 && len(r.TransferEncoding) == 0 {
			if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
				_ = conn.Close()
			}
			return
		}
		_, _ = io.WriteString(w, envelope("ok", `{"environment":"sandbox","currency":"USD","balance_cents":1,"cash_value":false}`))
	})
	c := clientOf(t, base)
	for range 3 {
		if _, err := c.Wallet(t.Context()); err != nil {
			t.Error(err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for nonce, n := range seen {
		if n != 1 || len(seen) != 4 {
			t.Errorf("nonce %s was sent %d times, of %d", nonce, n, len(seen))
		}
	}
}

func TestTrap01NothingWrittenIsNotSent(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	plain := serve(t, answering(200, envelope("ok", `{}`)))
	for name, r := range map[string]upstream.Reply{
		"no listener":   clientOf(t, "http://"+address).Post(context.Background(), renewWrite),
		"TLS fails":     clientOf(t, strings.Replace(plain, "http:", "https:", 1)).Post(context.Background(), renewWrite),
		"no such host":  clientOf(t, "https://host.invalid").Post(context.Background(), renewWrite),
		"context ended": clientOf(t, plain).Post(canceled, renewWrite),
		"bad key":       clientOf(t, plain).Post(context.Background(), upstream.Write{Kind: upstream.WriteOrder, Key: "a\nb"}),
	} {
		if r.Sent || r.Failure == "" || r.HTTPStatus != 0 {
			t.Errorf("%s: %+v", name, r)
		}
	}
	_, err = clientOf(t, "http://"+address).Wallet(context.Background())
	var te *upstream.TransportError
	if !errors.As(err, &te) || te.Sent {
		t.Errorf("%v", err)
	}
}

// A redirect would send a POST or its signature to another server, and return that server's
// reply to a GET.
func TestTrap01And43NoRedirectIsFollowed(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		var elsewhere atomic.Int64
		other := serve(t, func(w http.ResponseWriter, r *http.Request) {
			elsewhere.Add(1)
			answering(200, envelope("ok", walletData))(w, r)
		})
		c := clientOf(t, serve(t, answering(status, envelope("ok", walletData), "Location", other)))
		if r := c.Post(context.Background(), renewWrite); r.Envelope || r.Failure == "" || !r.Sent {
			t.Errorf("a POST and HTTP %d: %+v", status, r)
		}
		if w, err := c.Wallet(context.Background()); err == nil {
			t.Errorf("a GET and HTTP %d: %+v", status, w)
		}
		if n := elsewhere.Load(); n > 0 {
			t.Errorf("HTTP %d was followed %d times", status, n)
		}
	}
}

const walletData = `{"environment":"sandbox","currency":"USD","balance_cents":5,"cash_value":false}`

func TestTrap42TheScenarioHeaderGoesToSandboxesOnly(t *testing.T) {
	sent := 0
	base := serve(t, func(w http.ResponseWriter, r *http.Request) { sent++; answering(200, envelope("ok", "{}"))(w, r) })
	w := upstream.Write{Kind: upstream.WriteOrder, Key: "k", Body: []byte("{}"), Scenario: upstream.ScenarioSuccess}
	live := clientOf(t, base, func(c *upstream.Config) { c.AppID = "live_app_test" })
	if r := live.Post(context.Background(), w); r.Sent || r.Failure == "" || sent > 0 {
		t.Errorf("to production: %+v", r)
	}
	w.Kind = upstream.WriteRenewal
	if r := clientOf(t, base).Post(context.Background(), w); r.Sent || sent > 0 {
		t.Errorf("with a renewal: %+v", r)
	}
}

func TestTrap06WhatIsNoAnswerIsUnknown(t *testing.T) {
	t.Parallel()
	reset := func(w http.ResponseWriter, _ *http.Request) {
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_ = conn.(*net.TCPConn).SetLinger(0)
			_ = conn.Close()
		}
	}
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	for name, h := range map[string]http.HandlerFunc{
		"reset":       reset,
		"html 403":    answering(403, "<html>blocked</html>"),
		"500":         answering(500, "Internal Server Error"),
		"empty":       answering(200, ""),
		"no envelope": answering(200, `{"hello":1}`),
		"truncated":   answering(200, envelope("ok", `{}`)[:40], "Content-Length", "200"),
		"redirect":    answering(307, envelope("ok", `{}`), "Location", "/elsewhere"),
		"too large":   answering(200, envelope("ok", `{"x":"`+strings.Repeat("x", 5000)+`"}`)),
		"timeout": func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadAll(r.Body)
			select {
			case <-r.Context().Done():
			case <-stop:
			}
		},
	} {
		c := clientOf(t, serve(t, h), func(c *upstream.Config) { c.MaxBody = 4096; c.Timeout = 300 * time.Millisecond })
		if r := c.Post(context.Background(), renewWrite); !r.Sent || r.Failure == "" || r.Envelope || r.Renewal != nil {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestTrap06ARetryIsNewButItsBodyIsNot(t *testing.T) {
	type seen struct{ nonce, stamp, signature, body, key, agent string }
	var all []seen
	base := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		h := r.Header
		all = append(all, seen{h.Get("X-API-Nonce"), h.Get("X-API-Timestamp"), h.Get("X-API-Signature"), string(body), h.Get("Idempotency-Key"), h.Get("User-Agent")})
		_, _ = io.WriteString(w, envelope("idempotency_processing", `{}`))
	})
	now := noon
	c := clientOf(t, base, func(c *upstream.Config) { c.Clock = func() time.Time { return now } })
	c.Post(context.Background(), renewWrite)
	now = now.Add(time.Minute)
	c.Post(context.Background(), renewWrite)
	w := renewWrite
	w.Timestamp = noon.Add(-time.Hour)
	c.Post(context.Background(), w)
	if all[0].nonce == all[1].nonce || all[0].stamp == all[1].stamp || all[0].signature == all[1].signature {
		t.Errorf("a retry repeats: %+v", all)
	}
	if all[0].body != string(renewWrite.Body) || all[1].body != all[0].body || all[1].key != "k" || all[1].agent != "perennial/1" {
		t.Errorf("%+v", all)
	}
	if all[2].stamp != "2026-11-21T11:00:00Z" {
		t.Errorf("the given timestamp was not used: %s", all[2].stamp)
	}
}

func TestTrap37NoncesAre128RandomBits(t *testing.T) {
	nonces := map[string]bool{}
	c := clientOf(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		nonces[r.Header.Get("X-API-Nonce")] = true
		_, _ = io.WriteString(w, envelope("ok", `{}`))
	}))
	for range 20 {
		c.Post(context.Background(), renewWrite)
	}
	if len(nonces) != 20 {
		t.Errorf("%d nonces", len(nonces))
	}
	for n := range nonces {
		if len(n) != 32 {
			t.Errorf("nonce %q", n)
		}
	}
}

func TestTrap36TheSignedPathIsThePathSent(t *testing.T) {
	var bad []string
	c := clientOf(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		path, query, _ := strings.Cut(r.RequestURI, "?")
		h := r.Header
		want := upstream.Sign(testSecret, upstream.CanonicalString(r.Method, "127.0.0.1", path, upstream.CanonicalQuery(query),
			h.Get("X-API-Timestamp"), h.Get("X-API-Nonce"), upstream.BodyHash(nil)))
		if want != h.Get("X-API-Signature") {
			bad = append(bad, r.RequestURI)
		}
		if strings.Contains(path, "%25") != strings.Contains(r.URL.Path, "%") {
			bad = append(bad, "escaped twice: "+r.RequestURI)
		}
		_, _ = io.WriteString(w, envelope("ok", `{"proxy_id":`+fmt.Sprintf("%q", strings.TrimPrefix(r.URL.Path, "/api/v1/proxies/"))+`}`))
	}))
	for _, id := range []string{"px_1", "a/b", "a b+c", "100%", "日本", "a?b#c", "a%2Fb", "=@:;,!$&'()*"} {
		p, err := c.Proxy(context.Background(), id)
		if err != nil || p.ProxyID != id {
			t.Errorf("%q: %+v %v", id, p, err)
		}
	}
	for _, id := range []string{"", ".", ".."} {
		if _, err := c.Proxy(context.Background(), id); err == nil {
			t.Errorf("%q was sent", id)
		}
	}
	if bad != nil {
		t.Error(bad)
	}
}

func TestTrap40SignedHost(t *testing.T) {
	for _, signPort := range []bool{false, true} {
		ok := false
		base := serve(t, func(w http.ResponseWriter, r *http.Request) {
			host := "127.0.0.1"
			if signPort {
				host = r.Host
			}
			h := r.Header
			ok = h.Get("X-API-Signature") == upstream.Sign(testSecret, upstream.CanonicalString("GET", host, r.URL.Path, "",
				h.Get("X-API-Timestamp"), h.Get("X-API-Nonce"), upstream.BodyHash(nil)))
			_, _ = io.WriteString(w, envelope("ok", `{}`))
		})
		_, _ = clientOf(t, base, func(c *upstream.Config) { c.SignPort = signPort }).Account(context.Background())
		if !ok {
			t.Errorf("sign_port %t", signPort)
		}
	}
}

func TestTrap43And42Addresses(t *testing.T) {
	ok := upstream.Config{BaseURL: "https://api.example.com", AppID: "live_app_x", Secret: "s"}
	for _, base := range []string{"http://api.example.com", "http://127.0.0.1.example.com", "ftp://x", "https://", "https://u:p@h", "https://h?x=1", "::", ""} {
		cfg := ok
		cfg.BaseURL = base
		if _, err := upstream.New(cfg); err == nil {
			t.Errorf("%q accepted", base)
		}
	}
	for _, base := range []string{"http://localhost:1", "http://[::1]:1", "http://127.9.9.9", "https://api.example.com/"} {
		cfg := ok
		cfg.BaseURL = base
		if _, err := upstream.New(cfg); err != nil {
			t.Errorf("%q: %v", base, err)
		}
	}
	for id, want := range map[string]upstream.Environment{"live_app_x": upstream.Production, "sbx_app_x": upstream.Sandbox, "app_x": "", "": ""} {
		cfg := ok
		cfg.AppID = id
		c, err := upstream.New(cfg)
		if (err == nil) != (want != "") || err == nil && c.Environment() != want {
			t.Errorf("%q: %v", id, err)
		}
	}
}

func TestTrap41TheSecretIsNeverPrinted(t *testing.T) {
	cfg := upstream.Config{BaseURL: "https://api.example.com", AppID: "sbx_app_x", Secret: testSecret}
	c, err := upstream.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for _, v := range []any{cfg, &cfg, c, []any{cfg, c}, map[string]any{"c": c}, struct{ C *upstream.Client }{c}, struct{ c *upstream.Client }{c}} {
		_, _ = fmt.Fprintf(&out, "%v %+v %#v %s %q %x\n", v, v, v, v, v, v)
		_ = json.NewEncoder(&out).Encode(v)
		slog.New(slog.NewTextHandler(&out, nil)).Info("x", "v", v)
		l := logrus.New()
		l.SetOutput(&out)
		l.WithField("v", v).Info("x")
	}
	if strings.Contains(out.String(), testSecret) || strings.Contains(out.String(), fmt.Sprintf("%x", testSecret)) {
		t.Error("the secret was printed")
	}
	r := clientOf(t, serve(t, answering(401, `{"success":false,"code":"invalid_signature","message":"secret `+testSecret+`"}`))).Post(context.Background(), renewWrite)
	if strings.Contains(fmt.Sprintf("%+v", r), testSecret) {
		t.Error("an echoed secret came out")
	}
	body := `{"success":false,"code":"c_` + testSecret + `","message":"seen ` + testSecret + `","trace_id":"tr-` + testSecret + `"}`
	r = clientOf(t, serve(t, answering(503, body))).Post(context.Background(), renewWrite)
	if text := fmt.Sprintf("%+v", r); strings.Contains(text, testSecret) || r.Code == "" || r.TraceID == "" {
		t.Errorf("a secret without a word before it came out: %s", text)
	}
}

// An intermediary may add either without being asked. A body that cannot be decompressed, or
// becomes too large, has an unknown outcome.
func TestTrap76ACompressedReplyAndAByteOrderMarkAreRead(t *testing.T) {
	t.Parallel()
	packed := func(text string) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = io.WriteString(w, text)
		_ = w.Close()
		return b.String()
	}
	whole := envelope("ok", `{"environment":"sandbox","currency":"USD","balance_cents":5,"balance":"0.05","frozen_cents":0,"cash_value":false}`)
	for name, c := range map[string]struct {
		body, encoding string
		read           bool
	}{
		"compressed": {packed(whole), "gzip", true}, "a mark": {"\ufeff" + whole, "", true}, "both": {packed("\ufeff" + whole), "GZIP", true},
		"cut": {packed(whole)[:40], "gzip", false}, "not compressed": {whole, "gzip", false}, "too much": {packed(strings.Repeat(" ", 17<<20) + whole), "gzip", false},
	} {
		w, err := clientOf(t, serve(t, answering(200, c.body, "Content-Encoding", c.encoding))).Wallet(t.Context())
		if (err == nil) != c.read || c.read && w.BalanceCents != 5 {
			t.Errorf("%s: %+v %v", name, w, err)
		}
	}
}
