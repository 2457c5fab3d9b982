package schedules

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/queue/publish"
	"perennial/schedules/plans"
	"perennial/upstream"
	"perennial/upstream/sandbox"
)

// year simulates an account step by step with the real sandbox over sockets, a real ledger and a
// real sweeper. The simulated runner does one thing at a time, so that a seed determines
// everything.
type year struct {
	t        testing.TB
	random   *rand.Rand
	watch    *watch
	dir      string
	fixture  sandbox.Fixture
	server   *sandbox.Server
	client   *upstream.Client
	ledger   *ledger.Ledger
	sweeper  *Sweeper
	binding  fact.Binding
	inbox    []json.RawMessage // published, not accepted yet
	steps    int
	down     int // number of days that the provider stays down
	handKeys map[string]bool
	planned  map[string]string // by proxy and expiry: the reason in the runs' plans
	lost     map[string]string // by proxy and expiry: the reason when the proxy expired

	renewed, byHand, ambiguous, refusals, outages, reviews int
}

func newYear(t testing.TB, proxies int, seed uint64) *year {
	y := &year{
		t: t, random: rand.New(rand.NewPCG(seed, seed)), watch: &watch{now: noon}, dir: t.TempDir(), fixture: sandbox.DefaultFixture(),
		handKeys: map[string]bool{}, planned: map[string]string{}, lost: map[string]string{},
	}
	y.fixture.Proxies = []sandbox.FixtureProxy{
		{Count: proxies * 4 / 5, Prefix: "px_us_", AccountID: sandbox.DemoAccountID, Environment: "sandbox", OfferCode: "off_us_dallas", ExpiresIn: "132h..720h"},
		{Count: proxies / 5, Prefix: "px_de_", AccountID: sandbox.DemoAccountID, Environment: "sandbox", OfferCode: "off_de_frankfurt", ExpiresIn: "132h..720h"},
	}
	y.fixture.Accounts[0].Wallet.SandboxCents = int64(proxies) * 350
	y.ledger = openLedger(t, filepath.Join(y.dir, "main.ledger.db"), y.watch.Now)
	y.serve(nil)
	y.binding = fact.Binding{AccountID: sandbox.DemoAccountID, Environment: "sandbox", BaseURL: "http://127.0.0.1:1", Currency: "USD", Epoch: "e"}
	y.append(fact.LedgerOpened{
		AccountID: y.binding.AccountID, Environment: "sandbox", BaseURL: y.binding.BaseURL, Currency: "USD",
		OpeningCents: y.fixture.Accounts[0].Wallet.SandboxCents, Epoch: "e",
	})
	s := keepalive()
	s.Cron, s.RenewBefore, s.DailyBudgetCents = "@daily", 120*time.Hour, int64(proxies)*24
	var err error
	y.sweeper, err = New(Config{
		Account: "main", Ledger: y.ledger, Provider: y, Publisher: y, Clock: y.watch.Now, Schedules: []plans.Schedule{s},
		Wallet: func(ctx context.Context) (int64, error) {
			wallet, err := y.client.Wallet(ctx)
			return wallet.BalanceCents, err
		},
	})
	check(t, err)
	return y
}

// serve starts the provider, or restarts it with other prices.
func (y *year) serve(prices map[string]int64) {
	y.t.Helper()
	if y.server != nil {
		y.client.Close()
		check(y.t, y.server.Close())
	}
	y.fixture.Accounts[0].Prices = prices
	var err error
	y.server, err = sandbox.Start(context.Background(), sandbox.Options{
		Fixture: y.fixture, Clock: y.watch.Now, DB: filepath.Join(y.dir, "sandbox.db"), Charges: filepath.Join(y.dir, "charges.jsonl"), ChargesNoSync: true,
	})
	check(y.t, err)
	server := y.server
	y.t.Cleanup(func() { _ = server.Close() })
	y.client, err = upstream.New(upstream.Config{
		BaseURL: y.server.SandboxURL(), AppID: sandbox.DemoSandboxAppID, Secret: sandbox.DemoSandboxSecret, Clock: y.watch.Now,
	})
	check(y.t, err)
	y.t.Cleanup(y.client.Close)
}

// ProxiesPage implements Provider.
func (y *year) ProxiesPage(ctx context.Context, r upstream.PageRequest) (upstream.Page[upstream.Proxy], error) {
	if y.down > 0 {
		return upstream.Page[upstream.Proxy]{}, errDown
	}
	return y.client.ProxiesPage(ctx, r)
}

var errDown = errors.New("the provider is down")

// PublishCommands implements Publisher.
func (y *year) PublishCommands(_ context.Context, _ string, out []publish.Outgoing) error {
	for _, o := range out {
		y.inbox = append(y.inbox, o.Data)
	}
	return nil
}

func (y *year) append(facts ...fact.Fact) {
	y.t.Helper()
	check(y.t, y.ledger.Write(y.t.Context(), func(tx *ledger.Tx) error { return tx.Append(facts...) }))
}

// chance returns true with the given probability in percent.
func (y *year) chance(percent int) bool { return y.random.IntN(100) < percent }

// step simulates a day.
func (y *year) step() {
	y.t.Helper()
	y.steps++
	y.watch.add(noon.AddDate(0, 0, y.steps).Sub(y.watch.Now()))
	switch {
	case y.down > 0:
		y.down--
	case y.chance(4):
		y.down, y.outages = 1+y.random.IntN(2), y.outages+1
	}
	switch y.steps { // prices change three times
	case 90:
		y.serve(map[string]int64{"off_us_dallas": 450})
	case 150:
		y.serve(map[string]int64{"off_us_dallas": 450, "off_de_frankfurt": 200})
	case 250:
		y.serve(nil)
	}
	y.topUp()
	y.answer()
	y.sweep()
	if y.chance(30) && y.down == 0 {
		y.renewByHand()
	}
	refused := y.refusals
	y.carryOut()
	if y.refusals > refused { // the day has more than one slot
		y.watch.add(time.Hour)
		y.answer()
		y.sweep()
		y.carryOut()
	}
	check(y.t, y.sweeper.Warn(y.t.Context()))
}

// topUp fills the wallet once a month, except for two months in a year.
func (y *year) topUp() {
	const month = 30
	if y.steps%month != 0 || y.steps == 4*month || y.steps == 9*month {
		return
	}
	y.fill()
}

// fill adds a month's money to the wallet.
func (y *year) fill() {
	y.t.Helper()
	cents := y.fixture.Accounts[0].Wallet.SandboxCents
	y.control("/wallet", fmt.Sprintf(`{"account_id":%q,"environment":"sandbox","add_cents":%d}`, sandbox.DemoAccountID, cents))
	y.append(fact.LedgerRecorded{Movement: "top-up", AmountCents: cents, By: "ada", Reason: "the month"})
}

func (y *year) control(path, body string) {
	y.t.Helper()
	y.request(http.MethodPost, path, body)
}

func (y *year) request(method, path, body string) {
	y.t.Helper()
	r, err := http.NewRequestWithContext(y.t.Context(), method, y.server.ControlURL()+path, strings.NewReader(body))
	check(y.t, err)
	response, err := http.DefaultClient.Do(r)
	check(y.t, err)
	check(y.t, response.Body.Close())
	http.DefaultClient.CloseIdleConnections()
	want(y.t, path, response.StatusCode, http.StatusOK)
}

// sweep runs a slot and stores the plan's reason for each proxy.
func (y *year) sweep() {
	y.t.Helper()
	if y.down == 0 {
		check(y.t, y.sweeper.lister.WaitPass(y.t.Context()))
		y.countLost()
		check(y.t, y.sweeper.Warn(y.t.Context()))
	}
	plan, err := y.sweeper.RunNow(y.t.Context(), "keepalive", "ann", "due", nil)
	if y.down > 0 {
		wantErr(y.t, err, errDown)
		return
	}
	check(y.t, err)
	for _, x := range plan.Included {
		y.say(x.ProxyID, x.ExpiresAt, "included")
	}
	for _, x := range plan.LeftOut {
		y.say(x.ProxyID, x.ExpiresAt, x.Reason)
	}
}

// say stores the latest reason for a proxy's expiry. It keeps a reason about money, because a
// proxy that waited for money may be refused at its last attempt.
func (y *year) say(id string, expires time.Time, word string) {
	key := id + expires.UTC().String()
	if !forMoney(y.planned[key]) {
		y.planned[key] = word
	}
}

func forMoney(reason string) bool {
	return reason == plans.ReasonWallet || reason == plans.ReasonDay || reason == plans.ReasonMonth || reason == plans.ReasonBudget
}

// countLost stores the proxies that have expired since the last call.
func (y *year) countLost() {
	y.t.Helper()
	now := y.watch.Now()
	check(y.t, y.ledger.Fleet.Expiring(y.t.Context(), now, func(p tables.Proxy) error {
		key := p.ProxyID + p.ExpiresAt.String()
		if _, known := y.lost[key]; !known {
			y.lost[key] = y.planned[key]
		}
		return nil
	}))
}

// renewByHand plays an operator who renews a proxy at the provider's site between the plan and
// its commands, and records the cost.
func (y *year) renewByHand() {
	y.t.Helper()
	y.byHand++
	id, key := fmt.Sprintf("px_us_%d", 1+y.random.IntN(10)), fmt.Sprintf("by-hand-%d", y.byHand)
	y.handKeys[key] = true
	var chosen string
	check(y.t, y.ledger.Fleet.Expiring(y.t.Context(), y.watch.Now().Add(120*time.Hour), func(p tables.Proxy) error {
		if chosen == "" || y.chance(10) {
			chosen = p.ProxyID
		}
		return nil
	}))
	if chosen != "" {
		id = chosen // probably a proxy that the run has just planned
	}
	y.request(http.MethodDelete, "/faults", "") // one may be set for a command that was then not sent
	reply := y.client.Post(y.t.Context(), upstream.Write{
		Kind: upstream.WriteRenewal, Key: key, Body: []byte(fmt.Sprintf(`{"proxy_ids":[%q],"duration_days":30}`, id)), Timestamp: y.watch.Now(),
	})
	if reply.Renewal == nil {
		return // the wallet is empty
	}
	y.append(fact.LedgerRecorded{Movement: "external", AmountCents: reply.Renewal.ChargedCents, By: "ada", Reason: "renewed " + id + " by hand"})
}
