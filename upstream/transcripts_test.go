package upstream_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"perennial/upstream"
	"perennial/upstream/sandbox"
)

var update = flag.Bool("update", false, "write the transcripts anew")

const transcriptsDir = "../testdata/transcripts"

// step is one call of the client whose request and response are in testdata/transcripts.
type step struct {
	name  string
	fault map[string]any
	call  func(c *upstream.Client) (any, error)
	fails upstream.Code // the expected error
}

func orderOf(c *upstream.Client, orderNo *string, key, scenario string) (any, error) {
	o, err := c.CreateOrder(context.Background(), key, upstream.OrderRequest{DurationDays: 30, Scenario: scenario, Items: []upstream.OrderItem{{OfferCode: "off_us_dallas", Quantity: 2}}})
	*orderNo = o.OrderNo
	return o, err
}

func renewOf(c *upstream.Client, key string) (any, error) {
	return c.Renew(context.Background(), key, upstream.RenewRequest{ProxyIDs: []string{"px_us_1", "px_de_1"}, DurationDays: 30})
}

// steps returns calls for every endpoint, in this order.
func steps() []step {
	var orderNo string // of the latest order
	return []step{
		{"account", nil, func(c *upstream.Client) (any, error) { return c.Account(context.Background()) }, ""},
		{"wallet", nil, func(c *upstream.Client) (any, error) { return c.Wallet(context.Background()) }, ""},
		{"offers", nil, func(c *upstream.Client) (any, error) {
			return c.OffersPage(context.Background(), upstream.OfferFilter{Region: "São Paulo", Quantity: 2, DurationDays: 60}, upstream.PageRequest{Size: 50})
		}, ""},
		{"order_create", nil, func(c *upstream.Client) (any, error) { return orderOf(c, &orderNo, "key-1", "") }, ""},
		{"order_detail", nil, func(c *upstream.Client) (any, error) { return c.Order(context.Background(), orderNo) }, ""},
		{"order_create_delayed", nil, func(c *upstream.Client) (any, error) { return orderOf(c, &orderNo, "key-2", upstream.ScenarioDelayed) }, ""},
		{"order_detail_in_progress", nil, func(c *upstream.Client) (any, error) { return c.Order(context.Background(), orderNo) }, ""},
		{"order_list", nil, func(c *upstream.Client) (any, error) {
			return c.OrdersPage(context.Background(), upstream.PageRequest{Size: 1})
		}, ""},
		{"order_rejected", nil, func(c *upstream.Client) (any, error) { return orderOf(c, &orderNo, "key-3", upstream.ScenarioRejected) }, ""},
		{"order_detail_refunded", nil, func(c *upstream.Client) (any, error) { return c.AwaitOrder(context.Background(), orderNo) }, ""},
		{"proxy_list", nil, func(c *upstream.Client) (any, error) {
			return c.ProxiesPage(context.Background(), upstream.PageRequest{Size: 2})
		}, ""},
		{"proxy_detail", nil, func(c *upstream.Client) (any, error) { return c.Proxy(context.Background(), "px_us_1") }, ""},
		{"renew", nil, func(c *upstream.Client) (any, error) { return renewOf(c, "key-4") }, ""},
		{"renew_partial", map[string]any{"fault": "renewal", "failed": 1}, func(c *upstream.Client) (any, error) { return renewOf(c, "key-5") }, ""},
		{"renew_manual_review", map[string]any{"fault": "renewal", "unresolved": 1}, func(c *upstream.Client) (any, error) { return renewOf(c, "key-6") }, ""},
		{"renew_all_failed", map[string]any{"fault": "renewal", "failed": 2}, func(c *upstream.Client) (any, error) { return renewOf(c, "key-7") }, upstream.CodeOperationFailed},
		{"order_not_found", nil, func(c *upstream.Client) (any, error) { return c.Order(context.Background(), "a/b c") }, upstream.CodeOrderNotFound},
		{"rate_limited", map[string]any{"fault": "code", "code": "rate_limited", "retry_after": "7"}, func(c *upstream.Client) (any, error) { return c.Wallet(context.Background()) }, upstream.CodeRateLimited},
		{"key_conflict", nil, func(c *upstream.Client) (any, error) { return orderOf(c, &orderNo, "key-4", "") }, upstream.CodeIdempotencyKeyConflict},
	}
}

// tape records the last exchange of each step as sent.
type tape struct {
	http.RoundTripper
	last string
}

func (t *tape) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		body, _ = io.ReadAll(req.Body)
		req.Body = io.NopCloser(bytes.NewReader(body))
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%s %s HTTP/1.1\nHost: %s\n", req.Method, req.URL.RequestURI(), req.URL.Hostname())
	for _, name := range []string{"Content-Type", "Idempotency-Key", "User-Agent", "X-API-AppId", "X-API-Nonce", "X-API-Signature", "X-API-Timestamp", "X-Service-Sandbox-Scenario"} {
		if v := req.Header.Get(name); v != "" {
			fmt.Fprintf(&out, "%s: %s\n", name, v)
		}
	}
	fmt.Fprintf(&out, "\n%s\n\n", body)
	resp, err := t.RoundTripper.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(raw))
	fmt.Fprintf(&out, "HTTP/1.1 %s\n", resp.Status)
	for _, name := range []string{"Content-Type", "Retry-After"} {
		if v := resp.Header.Get(name); v != "" {
			fmt.Fprintf(&out, "%s: %s\n", name, v)
		}
	}
	t.last = out.String() + "\n" + withoutSecrets(raw)
	return resp, err
}

var (
	secretValue = regexp.MustCompile(`"(username|password|connection|socks5_uri|host)": "[^"]*"`)
	tokenValue  = regexp.MustCompile(`"next_page_token": "[^"]*"`)
	traceValue  = regexp.MustCompile(`"trace_id": "[^"]*"`)
)

// withoutSecrets returns a body in which secrets and random values are replaced.
func withoutSecrets(raw []byte) string {
	var pretty bytes.Buffer
	if json.Indent(&pretty, raw, "", "  ") != nil {
		return string(raw)
	}
	text := secretValue.ReplaceAllString(pretty.String(), `"$1": "replaced"`)
	text = tokenValue.ReplaceAllString(text, `"next_page_token": "token"`)
	return traceValue.ReplaceAllString(text, `"trace_id": "trc_1"`) + "\n"
}

// The requests and responses of every endpoint equal the stored transcripts.
func TestTranscripts(t *testing.T) {
	now := noon
	l := &lab{t: t}
	var err error
	if l.server, err = sandbox.Start(context.Background(), sandbox.Options{Fixture: sandbox.DefaultFixture(), Clock: func() time.Time { return now }}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.server.Close() })
	record, nonces := &tape{RoundTripper: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}, 0
	c := clientOf(t, l.server.SandboxURL(), func(c *upstream.Config) {
		c.AppID, c.Secret, c.Transport = sandbox.DemoSandboxAppID, sandbox.DemoSandboxSecret, record
		c.Clock = func() time.Time { return now }
		c.Nonce = func() string { nonces++; return fmt.Sprintf("%032x", nonces) }
		c.Wait = func(_ context.Context, d time.Duration) error { now = now.Add(d); return nil }
	})
	for _, s := range steps() {
		if s.fault != nil {
			l.fault(s.fault)
		}
		if _, err := s.call(c); (err == nil) != (s.fails == "") {
			t.Fatalf("%s: %v", s.name, err)
		}
		path := filepath.Join(transcriptsDir, s.name+".http")
		if *update {
			if err := os.WriteFile(path, []byte(record.last), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(path); err != nil || string(want) != record.last {
			t.Errorf("%s differs from its file (-update writes it anew): %v\n%s", s.name, err, record.last)
		}
	}
}

// transcript is a parsed transcript file.
type transcript struct {
	request, body, status, header, response string
}

func readTranscript(t testing.TB, name string) transcript {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(transcriptsDir, name+".http"))
	if err != nil {
		t.Fatal(err)
	}
	request, rest, _ := strings.Cut(string(raw), "\n\n")
	body, rest, _ := strings.Cut(rest, "\n\n")
	head, response, ok := strings.Cut(rest, "\n\n")
	status, header, _ := strings.Cut(head, "\n")
	if !ok || !strings.HasPrefix(status, "HTTP/1.1 ") {
		t.Fatalf("%s is no transcript", name)
	}
	return transcript{request, strings.TrimSpace(body), strings.TrimPrefix(status, "HTTP/1.1 "), header, response}
}

// The stored signatures are valid for the stored requests and the demonstration secret.
func TestTranscriptsAreSignedAsTheDocumentSays(t *testing.T) {
	for _, s := range steps() {
		tr := readTranscript(t, s.name)
		first, rest, _ := strings.Cut(tr.request, "\n")
		line := strings.Fields(first)
		path, query, _ := strings.Cut(line[1], "?")
		header := map[string]string{}
		for text := range strings.Lines(rest + "\n") {
			k, v, _ := strings.Cut(strings.TrimSpace(text), ": ")
			header[k] = v
		}
		want := upstream.Sign(sandbox.DemoSandboxSecret, upstream.CanonicalString(line[0], header["Host"], path, upstream.CanonicalQuery(query),
			header["X-API-Timestamp"], header["X-API-Nonce"], upstream.BodyHash([]byte(tr.body))))
		if header["X-API-Signature"] != want {
			t.Errorf("%s: %s, want %s", s.name, header["X-API-Signature"], want)
		}
	}
}

// replaying returns a client whose server sends one response to every request.
func replaying(t testing.TB, tr transcript, body string) *upstream.Client {
	t.Helper()
	status := 0
	if _, err := fmt.Sscan(tr.status, &status); err != nil {
		t.Fatal(err)
	}
	var header []string
	for line := range strings.Lines(tr.header) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		header = append(header, name, value)
	}
	return clientOf(t, serve(t, answering(status, body, header...)))
}

// Unknown fields anywhere in a response do not change what the client reads (trap 28). Unknown
// statuses are returned unchanged.
func TestTrap28FieldsOfTomorrowChangeNothing(t *testing.T) {
	for _, s := range steps() {
		tr := readTranscript(t, s.name)
		today, errToday := s.call(replaying(t, tr, tr.response))
		tomorrow, errTomorrow := s.call(replaying(t, tr, withUnknownFields(t, tr.response)))
		if !reflect.DeepEqual(today, tomorrow) || fmt.Sprint(errToday) != fmt.Sprint(errTomorrow) {
			t.Errorf("%s:\n%+v %v\n%+v %v", s.name, today, errToday, tomorrow, errTomorrow)
		}
		if (errToday == nil) != (s.fails == "") || strings.Contains(fmt.Sprintf("%+v", today), "replaced") {
			t.Errorf("%s: %+v %v", s.name, today, errToday)
		}
		strange := regexp.MustCompile(`"(status|payment_status|ip_type|protocol)": "[^"]*"`).ReplaceAllString(tr.response, `"$1": "of_tomorrow"`)
		if _, err := s.call(replaying(t, tr, strange)); (err == nil) != (s.fails == "") {
			t.Errorf("%s with strange statuses: %v", s.name, err)
		}
	}
}

// withUnknownFields adds members to every object except at the top of data, where
// one more array would be a second list (trap 30).
func withUnknownFields(t testing.TB, body string) string {
	t.Helper()
	var v any
	dec := json.NewDecoder(strings.NewReader(body))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		t.Fatal(err)
	}
	var add func(v any)
	add = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, inner := range v {
				add(inner)
			}
			v["x_new"], v["x_object"], v["x_number"] = "new", map[string]any{"password": "replaced", "list": []any{1, nil}}, 1.5
		case []any:
			for _, inner := range v {
				add(inner)
			}
		}
	}
	add(v)
	return string(must(json.Marshal(v)))
}
