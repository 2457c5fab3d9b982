package upstream_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"perennial/upstream"
)

// An exchange has the endpoint, the code and whether the request was sent. An undocumented code
// becomes "other", so that the provider cannot choose the name of a metric.
func TestEachRequestIsObservedOnce(t *testing.T) {
	var status int
	var body string
	url := serve(t, func(w http.ResponseWriter, r *http.Request) { answering(status, body)(w, r) })
	var seen []upstream.Exchange
	at := noon
	c := clientOf(t, url, func(cfg *upstream.Config) {
		cfg.Observe = func(x upstream.Exchange) { seen = append(seen, x) }
		cfg.Clock = func() time.Time { at = at.Add(time.Second); return at }
	})
	order := func() { c.Post(t.Context(), upstream.Write{Kind: upstream.WriteOrder, Key: "k", Body: []byte(`{}`)}) }
	create := func() {
		_, _ = c.CreateOrder(t.Context(), "k", upstream.OrderRequest{DurationDays: 30, Items: []upstream.OrderItem{{OfferCode: "o", Quantity: 1}}})
	}
	detail := func() { _, _ = c.Order(t.Context(), "ord 1") }
	for _, one := range []struct {
		do     func()
		status int
		body   string
		want   upstream.Exchange
	}{
		{order, 400, envelope("validation_error", "null"), upstream.Exchange{Route: "POST /api/v1/orders", Code: string(upstream.CodeValidationError), HTTPStatus: 400, Sent: true, TraceID: "trc_1"}},
		{order, 400, envelope("of_their_own", "null"), upstream.Exchange{Route: "POST /api/v1/orders", Code: "other", HTTPStatus: 400, Sent: true, TraceID: "trc_1"}},
		{create, 400, envelope("validation_error", "null"), upstream.Exchange{Route: "POST /api/v1/orders", Code: string(upstream.CodeValidationError), HTTPStatus: 400, Sent: true, TraceID: "trc_1"}},
		{order, 502, "<html>", upstream.Exchange{Route: "POST /api/v1/orders", HTTPStatus: 502, Sent: true}},
		{detail, 404, envelope("order_not_found", "null"), upstream.Exchange{Route: "GET /api/v1/orders/{id}", Code: string(upstream.CodeOrderNotFound), HTTPStatus: 404, Sent: true, TraceID: "trc_1"}},
		{func() { _, _ = c.Wallet(t.Context()) }, 429, envelope("rate_limited", "null"), upstream.Exchange{Route: "GET /api/v1/wallet", Code: string(upstream.CodeRateLimited), HTTPStatus: 429, Sent: true, TraceID: "trc_1"}},
	} {
		seen, status, body = nil, one.status, one.body
		one.do()
		if len(seen) != 1 {
			t.Fatalf("%+v: observed %+v", one.want, seen)
		}
		took := seen[0].Took
		if seen[0].Took = 0; seen[0] != one.want || took < time.Second {
			t.Errorf("%+v in %s, want %+v", seen[0], took, one.want)
		}
		if !slices.Contains(upstream.Routes(), seen[0].Route) {
			t.Errorf("%s is not among the routes", seen[0].Route)
		}
	}
	seen = nil
	gone := clientOf(t, "http://127.0.0.1:1", func(cfg *upstream.Config) { cfg.Observe = func(x upstream.Exchange) { seen = append(seen, x) } })
	_, _ = gone.Account(t.Context())
	if len(seen) != 1 || seen[0].Sent || seen[0].Code != "" || !strings.HasPrefix(seen[0].Route, "GET ") {
		t.Errorf("%+v", seen)
	}
}
