package upstream_test

import (
	"context"
	"errors"
	"fmt"

	"perennial/upstream"
	"perennial/upstream/sandbox"
)

// demo starts a sandbox and returns a client for its demonstration account.
func demo() (*upstream.Client, func()) {
	server, err := sandbox.Start(context.Background(), sandbox.Options{Fixture: sandbox.DefaultFixture()})
	if err != nil {
		panic(err)
	}
	client, err := upstream.New(upstream.Config{BaseURL: server.SandboxURL(), AppID: sandbox.DemoSandboxAppID, Secret: sandbox.DemoSandboxSecret})
	if err != nil {
		panic(err)
	}
	return client, func() { client.Close(); _ = server.Close() }
}

// The example lists offers, buys, waits and renews. Match errors with errors.Is and a Code, or
// with errors.As (or AsType) and *Error or *TransportError.
func Example() {
	c, stop := demo()
	defer stop()
	ctx := context.Background()
	var cheapest upstream.Offer
	for o, err := range c.Offers(ctx, upstream.OfferFilter{Quantity: 1, DurationDays: 30}, 50) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if cheapest.OfferCode == "" || *o.UnitPriceCents < *cheapest.UnitPriceCents {
			cheapest = o
		}
	}
	created, err := c.CreateOrder(ctx, "restock-7", upstream.OrderRequest{DurationDays: 30,
		Items: []upstream.OrderItem{{OfferCode: cheapest.OfferCode, Quantity: 1}}})
	if errors.Is(err, upstream.CodeInsufficientWallet) {
		fmt.Println("top up first")
		return
	}
	o, err := c.AwaitOrder(ctx, created.OrderNo)
	if err != nil || !o.Delivery.Available {
		fmt.Println("not delivered", err)
		return
	}
	r, err := c.Renew(ctx, "renew-7", upstream.RenewRequest{ProxyIDs: []string{o.Proxies[0].ProxyID}, DurationDays: 30})
	fmt.Println(cheapest.OfferCode, *o.TotalCents, r.Status, r.ChargedCents, err)
	// Output: off_br_saopaulo 180 completed 180 <nil>
}

func ExampleClient_Account() {
	c, stop := demo()
	defer stop()
	a, err := c.Account(context.Background())
	fmt.Println(a.AccountID, err)
	// Output: acc_sandbox <nil>
}

func ExampleClient_Wallet() {
	c, stop := demo()
	defer stop()
	w, err := c.Wallet(context.Background())
	fmt.Println(w.BalanceCents, w.Currency, w.Environment, w.CashValue, err)
	// Output: 500000 USD sandbox false <nil>
}

func ExampleClient_Offers() {
	c, stop := demo()
	defer stop()
	for o, err := range c.Offers(context.Background(), upstream.OfferFilter{CountryCode: "JP", DurationDays: 60}, 50) {
		fmt.Println(o.OfferCode, *o.UnitPriceCents, err)
	}
	// Output: off_jp_tokyo 420 <nil>
}

func ExampleClient_CreateOrder() {
	c, stop := demo()
	defer stop()
	created, err := c.CreateOrder(context.Background(), "key-1", upstream.OrderRequest{DurationDays: 30,
		Items: []upstream.OrderItem{{OfferCode: "off_us_dallas", Quantity: 2}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	o, err := c.Order(context.Background(), created.OrderNo)
	fmt.Println(o.Status, *o.TotalCents, len(o.Proxies), err)
	// Output: completed 600 2 <nil>
}

func ExampleClient_Order() {
	c, stop := demo()
	defer stop()
	created, err := c.CreateOrder(context.Background(), "key-1", upstream.OrderRequest{DurationDays: 30, Scenario: upstream.ScenarioDelayed,
		Items: []upstream.OrderItem{{OfferCode: "off_us_dallas", Quantity: 1}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	o, err := c.Order(context.Background(), created.OrderNo)
	fmt.Println(o.InProgress(), *o.PollAfterSeconds, o.Delivery.DeliveredCount, o.Delivery.ExpectedCount, len(o.Proxies), err)
	_, err = c.Order(context.Background(), "unknown")
	fmt.Println(errors.Is(err, upstream.CodeOrderNotFound))
	// Output:
	// true 1 0 1 0 <nil>
	// true
}

// Post is for programs that record their attempts. It never returns an error, and reports what
// is known about one request.
func ExampleClient_Post() {
	c, stop := demo()
	defer stop()
	body, err := upstream.RenewBody(upstream.RenewRequest{ProxyIDs: []string{"px_us_1"}, DurationDays: 30})
	if err != nil {
		fmt.Println(err)
		return
	}
	w := upstream.Write{Kind: upstream.WriteRenewal, Key: "key-3", Body: body}
	first := c.Post(context.Background(), w)
	again := c.Post(context.Background(), w) // the same key and bytes: no second charge
	fmt.Println(first.Sent, first.Code, first.Renewal.ChargedCents, again.TraceID == first.TraceID)
	// Output: true ok 300 true
}

// Programs that store their position read one page at a time.
func ExampleClient_ProxiesPage() {
	c, stop := demo()
	defer stop()
	request, pages := upstream.PageRequest{Size: 4}, 0
	for {
		page, err := c.ProxiesPage(context.Background(), request)
		if err != nil {
			fmt.Println(err)
			return
		}
		pages++
		if !page.HasMore {
			break
		}
		request.Token = page.NextPageToken
	}
	fmt.Println(pages)
	// Output: 3
}

// An error contains the trace id for the provider's support, and the Retry-After.
func ExampleError() {
	c, stop := demo()
	defer stop()
	_, err := c.Renew(context.Background(), "key-4", upstream.RenewRequest{ProxyIDs: []string{"px_unknown"}, DurationDays: 30})
	if failure, ok := errors.AsType[*upstream.Error](err); ok {
		fmt.Println(failure.Code, failure.HTTPStatus, failure.TraceID != "", failure.RetryAfter.Present)
	}
	// Output: proxy_not_found 404 true false
}

func ExampleClient_Orders() {
	c, stop := demo()
	defer stop()
	n := 0
	for range c.Orders(context.Background(), 50) {
		n++
	}
	fmt.Println(n)
	// Output: 0
}

func ExampleClient_Proxies() {
	c, stop := demo()
	defer stop()
	n := 0
	for _, err := range c.Proxies(context.Background(), 3) {
		if err != nil {
			fmt.Println(err)
		}
		n++
	}
	fmt.Println(n)
	// Output: 10
}

func ExampleClient_Proxy() {
	c, stop := demo()
	defer stop()
	_, err := c.Proxy(context.Background(), "px_unknown")
	fmt.Println(errors.Is(err, upstream.CodeProxyNotFound))
	// Output: true
}

func ExampleClient_Reveal() {
	c, stop := demo()
	defer stop()
	cred, err := c.Reveal(context.Background(), "px_us_1")
	fmt.Println(cred, cred.Username(), err)
	// Output: [redacted] user-px_us_1 <nil>
}

func ExampleClient_Renew() {
	c, stop := demo()
	defer stop()
	r, err := c.Renew(context.Background(), "key-2", upstream.RenewRequest{ProxyIDs: []string{"px_us_1", "px_de_1"}, DurationDays: 30})
	fmt.Println(r.Status, r.ChargedCents, r.Successful, err)
	// Output: completed 650 [px_us_1 px_de_1] <nil>
}
