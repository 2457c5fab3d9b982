package upstream_test

import (
	"context"
	"errors"
	"fmt"

	"perennial/upstream"
	"perennial/upstream/sandbox"
)

// demo starts a sandbox and a client of its demonstration account.
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
