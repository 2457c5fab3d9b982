package jobs

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"perennial/jobs/decide"
	"perennial/jobs/desk"
	"perennial/jobs/reconcile"
	"perennial/upstream"
	"perennial/upstream/sandbox"
)

// outsideKey is the prefix of keys under which people write at the provider, outside
// Perennial.
const outsideKey = "outside-"

// outsideWire carries people's own requests, which no crash of the runner interrupts.
type outsideWire struct{ *simulation }

// RoundTrip carries one request.
func (w outsideWire) RoundTrip(request *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(request.Body)
	w.must(err, "read a request")
	request = request.Clone(context.Background())
	request.RequestURI, request.RemoteAddr = request.URL.RequestURI(), "127.0.0.1:1"
	request.Body = io.NopCloser(bytes.NewReader(body))
	return w.serve(request)
}

// outside orders or renews at the provider, outside Perennial, and sometimes records the cost
// in the books.
func (s *simulation) outside(ctx context.Context) {
	if _, err := s.ledger.Binding(ctx); err != nil {
		return // the opening balance is read later, and may lag
	}
	client, err := upstream.New(upstream.Config{
		BaseURL: "http://127.0.0.1:80", AppID: sandbox.DemoSandboxAppID, Secret: sandbox.DemoSandboxSecret, Clock: func() time.Time { return s.time }, Transport: outsideWire{s},
	})
	s.must(err, "client")
	s.byHand++
	key := fmt.Sprintf("%s%d", outsideKey, s.byHand)
	if s.chance(2) {
		s.sayf("a person orders at the provider")
		_, _ = client.CreateOrder(ctx, key, upstream.OrderRequest{DurationDays: 30, Items: []upstream.OrderItem{{OfferCode: "off_us_dallas", Quantity: 1 + s.random.Int64N(2)}}})
	} else {
		id := fmt.Sprintf("px_%d", 1+s.random.IntN(8))
		s.sayf("a person renews %s at the provider", id)
		_, _ = client.Renew(ctx, key, upstream.RenewRequest{ProxyIDs: []string{id}, DurationDays: 30})
	}
	if cents := s.truth(key, ""); cents > 0 && s.chance(3) {
		s.sayf("a person records the %d cents", cents)
		s.recorded[key] = true
		s.record(ctx, desk.Recording{Kind: "external", Cents: cents, By: "ann", Reason: "by hand", OrderNo: s.orderOf(key)})
	}
}

// reconcile compares the books with the provider at any time. Any finding is allowed, because
// reads lag. It must pay for nothing and change no money.
func (s *simulation) reconcile(ctx context.Context) {
	r := s.runner
	if r == nil || r.books.readable() != nil {
		return
	}
	posts := s.counts.posts
	before, err := s.ledger.Money.Balance(ctx, "main")
	s.must(err, "balance")
	x, err := r.reconcile(ctx, r.scheduledReading, afterTwoPasses)
	s.sayf("reconciled: %t, %d findings, failed %t", x.Agrees(), len(x.Findings), err != nil)
	after, err := s.ledger.Money.Balance(ctx, "main")
	s.must(err, "balance")
	if after.Head = before.Head; s.counts.posts != posts || before != after {
		s.failf("a reconciliation wrote at the provider or moved money: %+v, then %+v", before, after)
	}
}

// reconciled is the last comparison. Nothing is in progress and nothing lags, so it must find
// exactly what people did outside the books, to the cent.
func (s *simulation) reconciled(ctx context.Context) {
	r := s.runner
	var x reconcile.Reconciliation
	for range 10 {
		var err error
		x, err = r.reconcile(ctx, r.scheduledReading, atOnce)
		s.must(err, "reconcile")
		if x.Compared.Left == 0 {
			break
		}
	}
	if x.Compared.Left > 0 || !x.Quiet || x.DifferenceCents() != s.added {
		s.failf("the wallet differs by %d, and the reconciliation says %d, quiet %t, %d left", s.added, x.DifferenceCents(), x.Quiet, x.Compared.Left)
	}
	if s.counts.reviews > 0 {
		return // a person's answers explain orders, rightly or not
	}
	found := map[string]int64{}
	for _, f := range x.Findings {
		switch f.Kind {
		case decide.FindingOutside:
			found[f.OrderNo] = f.AmountCents
		case decide.FindingWallet, decide.FindingRenewed:
		default:
			s.failf("books that agree are found to differ: %+v", f)
		}
	}
	opened, err := s.ledger.Money.OpenedAt(ctx)
	s.must(err, "opened at")
	for _, c := range s.charged() {
		at, err := time.Parse(time.RFC3339Nano, c.Time)
		s.must(err, "time of a charge")
		if at.Before(opened) {
			continue // by clocks that differ: the wallet alone tells that it is not in the opening balance
		}
		if key := c.IdempotencyKey; c.Kind == "charge" && c.OrderNo != "" && strings.HasPrefix(key, outsideKey) && !s.recorded[key] {
			if net := s.truth(key, ""); found[c.OrderNo] != net {
				s.failf("order %s was made past the books for %d cents, and %d are found", c.OrderNo, net, found[c.OrderNo])
			}
			delete(found, c.OrderNo)
		}
	}
	for no, cents := range found {
		s.failf("order %s is said to be made elsewhere, for %d cents", no, cents)
	}
}

// spentOutside returns the amount that people spent at the provider and did not record.
func (s *simulation) spentOutside() (cents int64) {
	for _, c := range s.charged() {
		if key := c.IdempotencyKey; strings.HasPrefix(key, outsideKey) && !s.recorded[key] {
			cents += signed(c)
		}
	}
	return cents
}
