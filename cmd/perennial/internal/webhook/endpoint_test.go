package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

const secondSecret = "whsec_b3RoZXItb3RoZXItb3RoZXItb3RoZXItb3RoZXI="

func endpointAt(t *testing.T, url, secrets string) Endpoint {
	t.Helper()
	s, err := ParseSecrets([]byte(secrets))
	if err != nil {
		t.Fatal(err)
	}
	transport := NewTransport(4)
	t.Cleanup(transport.CloseIdleConnections)
	return Endpoint{URL: url, Secrets: s, Timeout: 5 * time.Second, Transport: transport, Clock: time.Now, UserAgent: "perennial/test", Certificate: certificate}
}

// certificate says only that an error is about a certificate.
func certificate(err error, _ time.Time) string {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "its certificate"
	}
	return ""
}

// The standard's own library verifies the signature over the ID, the time and the whole body. It
// accepts either of two secrets during a rotation, and each attempt has a new time.
func TestASignatureIsOfStandardWebhooks(t *testing.T) {
	t.Parallel()
	const id, body = "main/0123456789abcdef/7", `{"specversion":"1.0","data":{"text":"ümlaut"}}`
	var came []http.Header
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil || string(text) != body || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/cloudevents+json" {
			t.Errorf("%s %v %q: %v", r.Method, r.Header, text, err)
		}
		came = append(came, r.Header)
	}))
	defer server.Close()
	e := endpointAt(t, server.URL, testSecret+"\n"+secondSecret+"\n")
	now := time.Now()
	e.Clock = func() time.Time { now = now.Add(time.Second); return now }
	for range 2 {
		if r := e.Send(t.Context(), id, []byte(body)); r.Outcome != Delivered || r.Status != 200 {
			t.Fatalf("%+v", r)
		}
	}
	for _, secret := range []string{testSecret, secondSecret} {
		wh, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			t.Fatal(err)
		}
		for _, header := range came {
			if err := wh.Verify([]byte(body), header); err != nil {
				t.Errorf("%v: %v", header, err)
			}
			for name, spoilt := range map[string]string{HeaderID: "other", HeaderTimestamp: fmt.Sprint(now.Unix() + 9)} {
				other := header.Clone()
				other.Set(name, spoilt)
				if wh.Verify([]byte(body), other) == nil {
					t.Errorf("the signature does not cover %s", name)
				}
			}
			if wh.Verify([]byte(strings.Replace(body, "ü", "u", 1)), header) == nil {
				t.Error("the signature does not cover the body")
			}
		}
	}
	if came[0].Get(HeaderID) != id || came[0].Get(HeaderID) != came[1].Get(HeaderID) || came[0].Get(HeaderTimestamp) == came[1].Get(HeaderTimestamp) || came[0].Get(HeaderSignature) == came[1].Get(HeaderSignature) {
		t.Errorf("two attempts: %v", came)
	}
}

// An invalid secret is refused and not repeated in the error.
func TestASecretIsOfStandardWebhooks(t *testing.T) {
	t.Parallel()
	for _, good := range []string{testSecret, " " + testSecret + "\n", testSecret + " " + secondSecret} {
		if s, err := ParseSecrets([]byte(good)); err != nil || showsKey(s) {
			t.Errorf("%v, %#v", err, s)
		}
	}
	for _, bad := range []string{"", "\n", "hunter2", "whsec_hunter2", testSecret[6:], "whsec_aHVudGVyMg==", testSecret + " hunter2", strings.Repeat(testSecret+" ", 3), "whsec_" + strings.Repeat("QUFB", 30)} {
		if _, err := ParseSecrets([]byte(bad)); err == nil || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "MDEy") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// A redirect is not followed, and the endpoint's body is not repeated.
func TestWhatAReplyMeans(t *testing.T) {
	t.Parallel()
	followed := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var status int
		if _, err := fmt.Sscanf(r.URL.Path, "/%d", &status); err != nil {
			followed = true
			return
		}
		w.Header().Set("Location", "/elsewhere?token=hunter2")
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "hunter2")
	}))
	defer server.Close()
	for status, want := range map[int]Outcome{
		200: Delivered, 202: Delivered, 204: Delivered, 299: Delivered, 301: Refused, 302: Refused, 307: Refused, 308: Refused,
		400: Refused, 401: Refused, 404: Refused, 408: Refused, 410: Gone, 429: RateLimited, 500: Failed, 503: Failed, 599: Failed,
	} {
		r := endpointAt(t, fmt.Sprintf("%s/%d?token=hunter2", server.URL, status), testSecret).Send(t.Context(), "id", []byte("{}"))
		if r.Outcome != want || r.Status != status || strings.Contains(r.Reason, "hunter2") || (r.RetryAfter == 7*time.Second) != (want != Delivered) {
			t.Errorf("%d: %+v", status, r)
		}
	}
	if followed {
		t.Error("a redirect was followed")
	}
}

// The URL's path and query may contain a token, and the endpoint's body is not repeated either.
func TestNoReplyIsSaidWithoutTheAddress(t *testing.T) {
	t.Parallel()
	listen := func(answer string) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				if answer == "" {
					t.Cleanup(func() { _ = conn.Close() })
					continue
				}
				_, _ = io.WriteString(conn, answer)
				_ = conn.Close()
			}
		}()
		return "http://" + l.Addr().String()
	}
	unknown := httptest.NewUnstartedServer(http.NotFoundHandler())
	unknown.Config.ErrorLog = log.New(io.Discard, "", 0) // of the failing handshake
	unknown.StartTLS()
	defer unknown.Close()
	for at, says := range map[string]string{
		"http://127.0.0.1:1":           "connection refused",
		listen("hunter2 hunter2\r\n"):  "no HTTP",
		listen("HTTP/1.1 hunter2\r\n"): "no HTTP",
		listen(""):                     "no reply within 100ms",
		unknown.URL:                    "its certificate",
	} {
		e := endpointAt(t, at+"/hunter2?token=hunter2", testSecret)
		if e.Timeout = time.Minute; strings.HasPrefix(says, "no reply") {
			e.Timeout = 100 * time.Millisecond
		}
		r := e.Send(t.Context(), "id", []byte("{}"))
		if r.Outcome != Unreachable || r.Status != 0 || !strings.Contains(r.Reason, says) || strings.Contains(r.Reason, "hunter2") {
			t.Errorf("%s: %+v", at, r)
		}
	}
}

func TestAReplyWithoutEndIsNotReadToIt(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 1<<12)); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	e := endpointAt(t, server.URL, testSecret)
	e.Timeout = time.Minute
	if r := e.Send(t.Context(), "id", []byte("{}")); r.Outcome != Delivered || r.Took > 30*time.Second {
		t.Errorf("%+v", r)
	}
}

// An endless body does not keep its delivery slot.
func TestAReplyIsDoneAtItsStatusLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := Endpoint{URL: "https://example.com", Timeout: time.Minute, Clock: time.Now, Transport: bodyWithoutEnd{}, Certificate: certificate}
		if r := e.Send(t.Context(), "id", []byte("{}")); r.Outcome != Delivered || r.Took > time.Second {
			t.Errorf("%+v", r)
		}
	})
}

type bodyWithoutEnd struct{ ctx context.Context } //nolint:containedctx // of the request

func (bodyWithoutEnd) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bodyWithoutEnd{r.Context()})}, nil
}

func (b bodyWithoutEnd) Read([]byte) (int, error) { <-b.ctx.Done(); return 0, b.ctx.Err() }

// showsKey reports whether any way to format secrets shows a key that begins with "0123", as text,
// in base64 or as numbers. The secrets may be in an unexported field.
func showsKey(s Secrets) bool {
	hidden := struct{ secrets Secrets }{s}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		for _, value := range []any{s, &s, hidden, Endpoint{Secrets: s}, &Sink{endpoint: Endpoint{Secrets: s}}} {
			text := fmt.Sprintf(verb, value)
			for _, key := range []string{"MDEy", "0123", "48 49 50 51", "30313233", "0x30, 0x31"} {
				if strings.Contains(text, key) {
					return true
				}
			}
		}
	}
	return false
}
