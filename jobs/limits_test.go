package jobs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"perennial/jobs/command"
	"perennial/jobs/inspect"
	"perennial/ledger/fact"
	"perennial/upstream"
	"perennial/upstream/sandbox"
)

func TestTrap22AnOrderOverItsCeilingIsNotSent(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.order(`{"id":"dear","duration_days":60,"items":[{"offer_code":"off_us_dallas","quantity":2}],"max_total_cents":1199}`)
	h.order(`{"id":"fits","duration_days":60,"items":[{"offer_code":"off_us_dallas","quantity":2}],"max_total_cents":1200}`)
	h.order(`{"id":"gone","duration_days":30,"items":[{"offer_code":"off_atlantis","quantity":2}],"max_total_cents":1200}`)
	if s := h.await("dear", fact.StateRejected); s.Operations[0].Code != "max_total_cents" || s.Operations[0].Attempts != 0 || !strings.Contains(s.Reason, "12.00 USD") {
		t.Errorf("%+v", s)
	}
	if s := h.await("gone", fact.StateRejected); s.Operations[0].Code != "offer_not_found" {
		t.Errorf("%+v", s)
	}
	h.await("fits", fact.StateDelivered)
	h.settled(1200, 0)
}

// quoted is a provider that records the quotes it was asked for.
type quoted struct {
	*upstream.Client
	asked []upstream.OfferFilter
}

func (p *quoted) OffersPage(ctx context.Context, f upstream.OfferFilter, r upstream.PageRequest) (upstream.Page[upstream.Offer], error) {
	p.asked = append(p.asked, f)
	return p.Client.OffersPage(ctx, f, r)
}

func TestTrap22AnOrderIsQuotedByItsExactFigures(t *testing.T) {
	h := idleRig(t)
	p := &quoted{Client: h.client}
	h.bind(func(c *Config) { c.Provider = p })
	if _, err := h.runner.pricing.quote(t.Context(), priorityOrder, command.Item{OfferCode: "off_us_dallas", Quantity: 7}, 90); err != nil {
		t.Fatal(err)
	}
	if len(p.asked) == 0 || p.asked[0].Quantity != 7 || p.asked[0].DurationDays != 90 {
		t.Errorf("asked for %+v", p.asked)
	}
}

// The proxies were never paid for and no listing has shown them. The first one shows the price
// of the others.
func TestTrap23ARenewalOverItsCeilingStopsAfterItsCanary(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.renew(`{"id":"dear","duration_days":30,"proxy_ids":["px_1","px_2","px_3"],"max_total_cents":500}`)
	s := h.await("dear", fact.StatePartial)
	if len(s.Operations) != 2 || s.Operations[0].State != fact.StateCompleted || s.Operations[1].State != fact.StateRejected || s.Operations[1].Attempts != 0 {
		t.Errorf("%+v", s)
	}
	h.settled(300, 0)
	h.renew(`{"id":"fits","duration_days":30,"proxy_ids":["px_4","px_5","px_6"],"max_total_cents":900}`)
	h.await("fits", fact.StateCompleted)
	h.settled(1200, 0)
}

// busy is a provider that reports one proxy's renewal as in progress forever.
type busy struct {
	*upstream.Client
	id string
}

func (p busy) Post(ctx context.Context, w upstream.Write) upstream.Reply {
	if strings.Contains(string(w.Body), `"`+p.id+`"`) {
		return upstream.Reply{Sent: true, HTTPStatus: 409, Envelope: true, Code: upstream.CodeIdempotencyProcessing}
	}
	return p.Client.Post(ctx, w)
}

// Under a limit, the first proxy of a command needs review, or is in progress at the provider
// for hours. The others are still renewed.
func TestTrap68OneProxyOfUnknownOutcomeDoesNotHoldTheRestOfItsCommand(t *testing.T) {
	t.Parallel()
	for _, ceiling := range []string{"", `,"max_total_cents":900`} {
		for _, state := range []fact.State{fact.StateReview, fact.StateWaiting} {
			h := idleRig(t)
			h.listed()
			h.bind(func(c *Config) {
				if c.Random = func() float64 { return 1 }; ceiling == "" {
					c.DailyLimitCents = 1200
				}
				if state == fact.StateWaiting {
					c.Provider = busy{h.client, "px_1"}
				}
			})
			h.start()
			h.renew(`{"id":"price","duration_days":30,"proxy_ids":["px_4"]}`)
			h.await("price", fact.StateCompleted)
			if state == fact.StateReview {
				h.fault(renew, "renewal", map[string]any{"unresolved": []string{"px_1"}})
			}
			h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1","px_2","px_3"]` + ceiling + `}`)
			h.until("the rest is renewed", func() bool { return len(h.facts("renewal.completed")) == 2 })
			if s := h.await("keep", state); s.Operations[0].State != state || s.Operations[1].State != fact.StateCompleted {
				t.Errorf("%s: %+v", state, s)
			}
			h.halt()
		}
	}
}

func TestACeilingCountsWhatIsInReviewAtItsEstimate(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.renew(`{"id":"price","duration_days":30,"proxy_ids":["px_1"]}`)
	h.await("price", fact.StateCompleted)
	h.listed()
	h.fault(renew, "code", map[string]any{"code": "idempotency_unresolved", "http_status": 409})
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_2","px_3"],"max_total_cents":500}`)
	h.awaitFact("command.rejected")
	s := h.await("keep", fact.StateReview)
	if o := s.Operations[1]; o.State != fact.StateRejected || o.Code != "max_total_cents" {
		t.Errorf("%+v", o)
	}
	h.settled(300, 0)
}

func TestTheLimitOfTheDayHoldsAndAPersonReleases(t *testing.T) {
	t.Parallel()
	h := newRig(t, func(c *Config) { c.DailyLimitCents = 700 })
	h.order(`{"id":"one","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":2}]}`)
	h.await("one", fact.StateDelivered)
	h.order(`{"id":"two","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":1}]}`)
	h.order(`{"id":"three","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":1}]}`)
	two := h.await("two", fact.StateHeld).Operations[0]
	if two.Attempts != 0 || two.NextAt == nil || !two.NextAt.After(time.Now()) || !strings.Contains(two.Reason, "7.00 USD") {
		t.Errorf("%+v", two)
	}
	h.await("three", fact.StateHeld)
	h.settled(600, 0)
	for _, do := range []struct {
		id string
		by func(context.Context, string, string, string, ...inspect.As) (int, error)
	}{{"two", h.runner.Release}, {"three", h.runner.Cancel}} {
		if n, err := do.by(t.Context(), do.id, "ada", "as agreed"); err != nil || n != 1 {
			t.Errorf("%s: %d %v", do.id, n, err)
		}
	}
	h.await("two", fact.StateDelivered)
	h.await("three", fact.StateRejected)
	var refused *command.RefusedError
	if _, err := h.runner.Release(t.Context(), "two", "ada", "again"); !errors.As(err, &refused) {
		t.Errorf("a delivered command was released: %v", err)
	}
	h.settled(900, 0)
}

// A released operation stays released, even if its precheck or its first request fails.
func TestAReleasedOperationIsPostponedAndNotHeldAgain(t *testing.T) {
	t.Parallel()
	h := idleRig(t, func(c *Config) { c.DailyLimitCents = 100 })
	h.start()
	h.order(buyA)
	if s := h.await("a", fact.StateHeld); !strings.Contains(s.Reason, "it stays on hold, from day to day") {
		t.Errorf("%+v", s)
	}
	h.control("/faults", map[string]any{"method": "GET", "path": "/api/v1/offers", "fault": "error_before", "times": 2})
	_, err := h.runner.Release(t.Context(), "a", "ada", "wanted")
	check(t, err)
	h.await("a", fact.StateDelivered)
	h.settled(300, 0)
	if held, waited := len(h.facts("command.held")), len(h.facts("operation.waiting")); held != 1 || waited == 0 {
		t.Errorf("held %d times, postponed %d times", held, waited)
	}
	h.renew(`{"id":"r","duration_days":30,"proxy_ids":["px_1"]}`)
	h.await("r", fact.StateHeld)
	_, err = h.runner.Release(t.Context(), "r", "ada", "wanted, at any price")
	check(t, err)
	h.await("r", fact.StateCompleted)
}

// together is a provider that answers the first two quotes at the same moment.
type together struct {
	*upstream.Client
	meet *sync.WaitGroup
}

func (p together) OffersPage(ctx context.Context, f upstream.OfferFilter, r upstream.PageRequest) (upstream.Page[upstream.Offer], error) {
	p.meet.Done()
	p.meet.Wait()
	return p.Client.OffersPage(ctx, f, r)
}

func TestTwoSimultaneousOrdersDoNotBothFitUnderTheLimit(t *testing.T) {
	t.Parallel()
	var meet sync.WaitGroup
	meet.Add(2)
	h := idleRig(t)
	h.bind(func(c *Config) { c.DailyLimitCents, c.Provider = 400, together{h.client, &meet} })
	h.start()
	h.order(`{"id":"a","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":1}]}`)
	h.order(`{"id":"b","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":1}]}`)
	h.awaitFact("order.delivered")
	h.awaitFact("command.held")
	h.settled(300, 0)
}

// Only an operator can start a new key, and only after a refusal that proves that nothing was
// charged.
func TestTrap07AfterARefusalRetryAsksUnderANewKey(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	wallet := func(add int64) {
		h.control("/wallet", map[string]any{"account_id": sandbox.DemoAccountID, "environment": "sandbox", "add_cents": add})
	}
	wallet(-499_900)
	h.order(`{"id":"buy","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":1}]}`)
	first := h.await("buy", fact.StateRejected).Operations[0]
	if first.Code != "insufficient_wallet_balance" || first.TraceID == "" {
		t.Errorf("%+v", first)
	}
	wallet(499_900)
	if n, err := h.runner.Retry(t.Context(), "buy", "ada", "topped up"); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	s := h.await("buy", fact.StateDelivered)
	if len(s.Operations) != 2 || s.Operations[1].IdempotencyKey == first.IdempotencyKey || s.Operations[1].OperationID != "buy/1~2" {
		t.Errorf("%+v", s)
	}
	var refused *command.RefusedError
	if _, err := h.runner.Retry(t.Context(), "buy", "ada", "once more"); !errors.As(err, &refused) {
		t.Errorf("a delivered order was asked for again: %v", err)
	}
	h.settled(300, 0)
}

// The filter retries neither a renewal that a later command made, nor an operation that was
// retried before.
func TestAFilterRetriesOnlyWhatNothingElseDid(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	wallet := func(add int64) {
		h.control("/wallet", map[string]any{"account_id": sandbox.DemoAccountID, "environment": "sandbox", "add_cents": add})
	}
	wallet(-499_900)
	for id, proxy := range map[string]string{"first": "px_1", "second": "px_2"} {
		h.renew(fmt.Sprintf(`{"id":%q,"duration_days":30,"proxy_ids":[%q]}`, id, proxy))
		h.await(id, fact.StateRejected)
	}
	again := func(id, left string) {
		t.Helper()
		n, err := h.runner.RetryUnrepeated(t.Context(), id, "ada", "topped up", inspect.AsOperation)
		if refused := (*command.RefusedError)(nil); left == "" && (err != nil || n != 1) || left != "" && (!errors.As(err, &refused) || !strings.Contains(err.Error(), left)) {
			t.Errorf("%s: %d, %v", id, n, err)
		}
	}
	again("second/0001", "")
	h.await("second", fact.StateRejected)
	again("second/0001", "another operation has taken its place")
	again("second/0001~2", "asked again before")
	wallet(499_900)
	h.renew(`{"id":"later","duration_days":30,"proxy_ids":["px_1"]}`)
	h.await("later", fact.StateCompleted)
	again("first/0001", "a later command, later, renews px_1 and is completed")
}

func TestOneUnknownProxyDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1","px_2","px_gone","px_3","px_4"]}`)
	s := h.await("keep", fact.StatePartial)
	for _, o := range s.Operations {
		if o.State == fact.StateRejected && len(o.Lines) == 1 && o.Lines[0].ProxyID != "px_gone" {
			t.Errorf("%+v", o)
		}
	}
	h.settled(1200, 0)
	// With the command's id, Retry selects the one operation that no later operation has
	// replaced.
	if n, err := h.runner.Retry(t.Context(), "keep", "ada", "it is back"); err != nil || n != 1 {
		t.Errorf("%d asked again, %v", n, err)
	}
	h.until("the retry is refused too", func() bool {
		states, err := h.ledger.Operations.StateCounts(t.Context())
		return err == nil && states[fact.StateSending]+states[fact.StateAccepted] == 0
	})
	h.settled(1200, 0)
}

func TestTrap41NoCredentialIsAnywhereInTheLedger(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.order(`{"id":"buy","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":3}]}`)
	h.order(`{"id":"later","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":1}],"sandbox_scenario":"success"}`)
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1"],"due_before":"2100-01-01T00:00:00Z"}`)
	h.await("buy", fact.StateDelivered)
	h.await("later", fact.StateDelivered)
	h.await("keep", fact.StateCompleted)
	secrets := []string{sandbox.DemoSandboxSecret}
	proxies := []string{"px_1"}
	for _, f := range h.facts("order.delivered") {
		d, _ := f.(fact.OrderDelivered)
		proxies = append(proxies, d.ProxyIDs...)
	}
	if len(proxies) != 5 {
		t.Fatalf("delivered: %v", proxies)
	}
	for _, id := range proxies {
		c, err := h.client.Reveal(t.Context(), id)
		check(t, err)
		secrets = append(secrets, c.Username(), c.Password(), c.SOCKS5URI(), c.Connection())
	}
	files := readAll(t, h.path)
	if !strings.Contains(files, proxies[1]) {
		t.Fatal("the files read are not the ledger's")
	}
	for _, s := range secrets {
		if s == "" || strings.Contains(files, s) {
			t.Errorf("%q is in the ledger, or empty", s)
		}
	}
}

func TestTrap42ALedgerRefusesAnotherAccount(t *testing.T) {
	h := idleRig(t)
	other, err := upstream.New(upstream.Config{BaseURL: h.server.ProductionURL(), AppID: sandbox.DemoProductionAppID, Secret: sandbox.DemoProductionSecret})
	check(t, err)
	defer other.Close()
	for name, provider := range map[string]Provider{
		"production credentials":   other,
		"another account":          impostor{h.client, func(a *upstream.Account) { a.AccountID = "acc_other" }, nil},
		"a wallet of production":   impostor{h.client, nil, func(w *upstream.Wallet) { w.Environment = upstream.Production }},
		"a wallet with cash value": impostor{h.client, nil, func(w *upstream.Wallet) { w.CashValue = true }},
		"another currency":         impostor{h.client, nil, func(w *upstream.Wallet) { w.Currency = "EUR" }},
	} {
		c := h.runner.Config
		c.Provider = provider
		var wrong *BindingError
		if err := NewRunner(c).Bind(t.Context()); !errors.As(err, &wrong) || wrong.Account != "main" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := len(h.facts("ledger.opened")); n != 1 {
		t.Errorf("opened %d times", n)
	}
	c := h.runner.Config
	c.Address = "https://elsewhere.example"
	var wrong *BindingError
	if err := NewRunner(c).Bind(t.Context()); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "elsewhere.example") {
		t.Errorf("another address: %v", err)
	}
}

// impostor is a provider that reports another identity.
type impostor struct {
	*upstream.Client
	account func(*upstream.Account)
	wallet  func(*upstream.Wallet)
}

func (p impostor) Account(ctx context.Context) (upstream.Account, error) {
	a, err := p.Client.Account(ctx)
	if p.account != nil {
		p.account(&a)
	}
	return a, err
}

func (p impostor) Wallet(ctx context.Context) (upstream.Wallet, error) {
	w, err := p.Client.Wallet(ctx)
	if p.wallet != nil {
		p.wallet(&w)
	}
	return w, err
}

// Six renewals of unknown price arrive together.
func TestTrap52AnUnknownPriceIsNotZeroInTheDailyLimit(t *testing.T) {
	t.Parallel()
	h := idleRig(t)
	h.bind(func(c *Config) { c.DailyLimitCents, c.Concurrency = 700, 8 })
	h.start()
	for i := range 6 {
		h.renew(fmt.Sprintf(`{"id":"r-%d","duration_days":30,"proxy_ids":["px_%d"]}`, i, i+1))
	}
	h.until("each is renewed or held", func() bool {
		n := 0
		for i := range 6 {
			s, err := inspect.Status(t.Context(), h.ledger, fmt.Sprintf("r-%d", i))
			if err == nil && (s.State == string(fact.StateCompleted) || s.State == string(fact.StateHeld)) {
				n++
			}
		}
		return n == 6
	})
	h.settled(600, 0)
}

// A renewal of unknown price counts at the highest recent price.
func TestTrap52AnUnknownPriceCountsAsTheDearest(t *testing.T) {
	t.Parallel()
	h := idleRig(t)
	h.bind(func(c *Config) { c.DailyLimitCents = 1000 })
	h.start()
	h.renew(`{"id":"dear","duration_days":90,"proxy_ids":["px_1"]}`)
	h.await("dear", fact.StateCompleted)
	h.renew(`{"id":"other","duration_days":30,"proxy_ids":["px_elsewhere"]}`)
	if s := h.await("other", fact.StateHeld); s.Operations[0].Attempts != 0 || !strings.Contains(s.Reason, "3.00 USD") {
		t.Errorf("%+v", s)
	}
	h.settled(900, 0)
}

// renaming is a provider that has renamed a region since it was read.
type renaming struct {
	*upstream.Client
	renamed bool
}

func (p *renaming) OffersPage(ctx context.Context, f upstream.OfferFilter, r upstream.PageRequest) (upstream.Page[upstream.Offer], error) {
	if p.renamed && f.Region == "Dallas" {
		f.Region = "a name that no offer has any more"
	}
	return p.Client.OffersPage(ctx, f, r)
}

func TestTrap22AnOfferIsFoundWhateverItsRegionIsCalled(t *testing.T) {
	h := idleRig(t)
	p := &renaming{Client: h.client}
	h.bind(func(c *Config) { c.Provider = p })
	for _, p.renamed = range []bool{false, true} {
		if cents, err := h.runner.pricing.quote(t.Context(), priorityOrder, command.Item{OfferCode: "off_us_dallas", Quantity: 1}, 30); err != nil || cents != fact.Known(300) {
			t.Errorf("renamed %t: %+v, %v", p.renamed, cents, err)
		}
	}
}

// The configuration lost the field's name after the order was accepted. Without its CIDRs, the
// order would buy addresses of the provider's choice.
func TestTrap33AnOrderWhoseCIDRsHaveNoFieldIsHeld(t *testing.T) {
	t.Parallel()
	h := idleRig(t)
	h.bind(func(c *Config) { c.CIDRField = "cidrs" })
	check(t, h.runner.PauseByHand(t.Context(), "ada", "later"))
	h.start()
	h.order(`{"id":"buy","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":1,"cidrs":["198.51.100.0/24"]}]}`)
	h.await("buy", fact.StateAccepted)
	h.restart()
	h.resumes("ada", "go on")
	if s := h.await("buy", fact.StateHeld); !strings.Contains(s.Reason, "cidr_field") || s.Operations[0].Attempts != 0 {
		t.Errorf("%+v", s)
	}
	held := len(h.facts("command.held"))
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1"]}`)
	h.await("keep", fact.StateCompleted)
	if n := len(h.facts("command.held")); n != held || held != 1 {
		t.Errorf("%d facts say that it is held", n)
	}
}

// twice is a provider that lists each offer twice, the second time at 2.00 more.
type twice struct{ *upstream.Client }

func (p twice) OffersPage(ctx context.Context, f upstream.OfferFilter, r upstream.PageRequest) (upstream.Page[upstream.Offer], error) {
	page, err := p.Client.OffersPage(ctx, f, r)
	for _, o := range page.Items {
		o.UnitPriceCents, o.UnitPrice = new(*o.UnitPriceCents+200), ""
		page.Items = append(page.Items, o)
	}
	return page, err
}

// Which of the two prices the provider charges is not known.
func TestTrap52AnOfferThatIsListedTwiceCostsTheDearerPrice(t *testing.T) {
	h := idleRig(t)
	h.bind(func(c *Config) { c.Provider = twice{h.client} })
	if cents, err := h.runner.pricing.quote(t.Context(), priorityOrder, command.Item{OfferCode: "off_us_dallas", Quantity: 1}, 30); err != nil || cents != fact.Known(500) {
		t.Errorf("%+v, %v", cents, err)
	}
}
