package upstream_test

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"testing"
	"time"

	"perennial/upstream"
	"perennial/upstream/sandbox"
)

// What the reply to a first attempt proves.
const (
	charged    = "charged"
	notCharged = "not charged"
	unknown    = "unknown"
)

// refusals are the codes after which, by the API document, nothing was executed.
var refusals = map[upstream.Code]bool{upstream.CodeInvalidSignature: true, upstream.CodeStaleTimestamp: true, upstream.CodeIdempotencyKeyRequired: true,
	upstream.CodeInsufficientScope: true, upstream.CodeAPIKeyRevoked: true, upstream.CodeValidationError: true, upstream.CodeOfferNotFound: true,
	upstream.CodeProxyNotFound: true, upstream.CodeInsufficientWallet: true, upstream.CodeRateLimited: true, upstream.CodeUnsupportedOperation: true}

// conclude reads only the Reply, to show that a Reply contains enough.
func conclude(r upstream.Reply) string {
	switch {
	case !r.Sent:
		return notCharged
	case r.Failure != "" || !r.Envelope || r.Malformed != "":
		return unknown
	case r.Success && r.HTTPStatus/100 == 2 && (r.Order != nil || r.Renewal != nil && len(r.Renewal.Unresolved) == 0 && r.Renewal.Status != upstream.RenewalManualReview):
		return charged
	case r.Code == upstream.CodeOperationFailed && r.Renewal != nil && r.Renewal.Status == upstream.RenewalFailed && r.Renewal.ChargedCents == 0:
		return notCharged
	case !r.Success && refusals[r.Code]:
		return notCharged
	}
	return unknown
}

// lab is a sandbox whose faults and wallet a test can change.
type lab struct {
	t      *testing.T
	server *sandbox.Server
	client *upstream.Client
}

func newLab(t *testing.T) *lab {
	t.Helper()
	s, err := sandbox.Start(context.Background(), sandbox.Options{Fixture: sandbox.DefaultFixture(), Clock: func() time.Time { return noon }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	c := clientOf(t, s.SandboxURL(), func(c *upstream.Config) {
		c.AppID, c.Secret, c.Timeout = sandbox.DemoSandboxAppID, sandbox.DemoSandboxSecret, 200*time.Millisecond
	})
	return &lab{t, s, c}
}

func (l *lab) fault(f map[string]any) {
	l.t.Helper()
	body, _ := json.Marshal(f)
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(must(http.NewRequest(http.MethodPost, l.server.ControlURL()+"/faults", bytes.NewReader(body))))
	if err != nil {
		l.t.Fatal(err)
	}
	if _ = resp.Body.Close(); resp.StatusCode != http.StatusOK {
		l.t.Fatalf("%v: HTTP %d", f, resp.StatusCode)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// moved returns the referee's charges minus its refunds.
func (l *lab) moved() int64 {
	l.t.Helper()
	var sum int64
	for _, c := range must(l.server.Charges()) {
		if c.Kind == "charge" {
			sum += c.AmountCents
		} else {
			sum -= c.AmountCents
		}
	}
	return sum
}

// faultCases are all faults of the control interface. money says whether the first attempt
// charged; final is the outcome of the same key and bytes.
var faultCases = []struct {
	name    string
	fault   map[string]any
	outcome string
	money   bool
	final   string
	renewal bool // only for renewals
}{
	{"none", nil, charged, true, charged, false},
	{"drop_before", map[string]any{"fault": "drop_before"}, unknown, false, charged, false},
	{"drop_after", map[string]any{"fault": "drop_after"}, unknown, true, charged, false},
	{"error_before", map[string]any{"fault": "error_before"}, unknown, false, charged, false},
	{"error_after", map[string]any{"fault": "error_after"}, unknown, true, charged, false},
	{"hang, shorter than the timeout", map[string]any{"fault": "hang", "seconds": 0.01}, charged, true, charged, false},
	{"hang, executed", map[string]any{"fault": "hang", "seconds": 60}, unknown, true, charged, false},
	{"hang, not executed", map[string]any{"fault": "hang", "seconds": 60, "executed": false}, unknown, false, charged, false},
	{"truncate", map[string]any{"fault": "truncate"}, unknown, true, charged, false},
	{"garbage", map[string]any{"fault": "garbage"}, unknown, true, charged, false},
	{"html", map[string]any{"fault": "html"}, unknown, false, charged, false},
	{"code rate_limited", map[string]any{"fault": "code", "code": "rate_limited", "retry_after": "7"}, notCharged, false, charged, false},
	{"code proxy_endpoint_unavailable", map[string]any{"fault": "code", "code": "proxy_endpoint_unavailable"}, unknown, false, charged, false},
	{"code operation_failed, executed", map[string]any{"fault": "code", "code": "operation_failed", "executed": true}, unknown, true, charged, false},
	{"code idempotency_processing", map[string]any{"fault": "code", "code": "idempotency_processing"}, unknown, false, charged, false},
	{"code idempotency_replay_failed", map[string]any{"fault": "code", "code": "idempotency_replay_failed", "executed": true}, unknown, true, charged, false},
	{"code replayed_nonce", map[string]any{"fault": "code", "code": "replayed_nonce", "executed": true}, unknown, true, charged, false},
	{"code of tomorrow", map[string]any{"fault": "code", "code": "brand_new_code", "http_status": 418}, unknown, false, charged, false},
	{"code ok with HTTP 500", map[string]any{"fault": "code", "code": "ok", "http_status": 500, "executed": true}, unknown, true, charged, false},
	{"unresolved_record", map[string]any{"fault": "unresolved_record"}, unknown, true, unknown, false},
	{"unresolved_record, not executed", map[string]any{"fault": "unresolved_record", "executed": false}, unknown, false, unknown, false},
	{"renewal failed", map[string]any{"fault": "renewal", "failed": 2}, notCharged, false, notCharged, true},
	{"renewal partial", map[string]any{"fault": "renewal", "failed": 1}, charged, true, charged, true},
	{"renewal unresolved", map[string]any{"fault": "renewal", "unresolved": 1}, unknown, true, unknown, true},
}

// For every fault and both writes, the conclusion from the reply is right, and a retry with the
// same key and bytes charges at most once.
func TestEveryFaultLeadsToTheRightOutcome(t *testing.T) {
	t.Parallel()
	writes := map[string]upstream.Write{
		"order":   {Kind: upstream.WriteOrder, Key: "k", Body: must(upstream.OrderBody(upstream.OrderRequest{DurationDays: 30, Items: []upstream.OrderItem{{OfferCode: "off_us_dallas", Quantity: 1}}}))},
		"renewal": {Kind: upstream.WriteRenewal, Key: "k", Body: must(upstream.RenewBody(upstream.RenewRequest{ProxyIDs: []string{"px_us_1", "px_us_2"}, DurationDays: 30}))},
	}
	for kind, write := range writes {
		for _, c := range faultCases {
			if c.renewal && kind == "order" {
				continue
			}
			t.Run(kind+" "+c.name, func(t *testing.T) { newLab(t).try(write, c.fault, c.outcome, c.money, c.final) })
		}
	}
}

func (l *lab) try(w upstream.Write, fault map[string]any, outcome string, money bool, final string) {
	t := l.t
	t.Helper()
	if fault != nil {
		fault = maps.Clone(fault) // parallel tests share the table
		fault["method"] = http.MethodPost
		l.fault(fault)
	}
	r := l.client.Post(context.Background(), w)
	if got := conclude(r); got != outcome {
		t.Errorf("first attempt: %s, want %s: %+v", got, outcome, r)
	}
	once := l.moved()
	if (once > 0) != money || outcome == charged && once == 0 || outcome == notCharged && once != 0 {
		t.Errorf("first attempt: %s, and %d cents moved", outcome, once)
	}
	for r = l.client.Post(context.Background(), w); r.Code == upstream.CodeIdempotencyProcessing; { // until the hanging request has finished
		r = l.client.Post(context.Background(), w)
	}
	if got := conclude(r); got != final {
		t.Errorf("second attempt: %s, want %s: %+v", got, final, r)
	}
	if again := l.moved(); money && again != once || again < 0 {
		t.Errorf("%d cents moved, then %d", once, again)
	}
}

// With the same faults, a GET returns an error that describes the fault, never a zero value.
func TestEveryFaultOnAGetIsAnError(t *testing.T) {
	t.Parallel()
	for _, c := range faultCases {
		switch c.fault["fault"] {
		case nil, "renewal", "unresolved_record":
			continue // a fault only for writes
		}
		if c.outcome == charged {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			l := newLab(t)
			f := maps.Clone(c.fault)
			f["method"] = http.MethodGet
			l.fault(f)
			w, err := l.client.Wallet(context.Background())
			if err == nil || w != (upstream.Wallet{}) {
				t.Errorf("%+v, %v", w, err)
			}
			if _, err = l.client.Wallet(context.Background()); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}
