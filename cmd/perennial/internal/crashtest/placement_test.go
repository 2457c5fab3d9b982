//go:build check

// Ten accounts on three runners: which runner leads which account, and what moves when a runner
// starts or is killed, or an operator moves an account.
package crashtest

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"perennial/cmd/perennial/internal/cli"
	"perennial/cmd/perennial/internal/cluster"
	"perennial/cmd/perennial/internal/daemon"
	"perennial/cmd/perennial/internal/verbs"
	"perennial/ledger/fact"
	"perennial/queue"
	"perennial/queue/service"
)

// manyAccounts is ten accounts, and runners that each serve all of them.
type manyAccounts struct {
	w        *world
	nats     *natsProcess
	queue    *queue.Queue
	js       jetstream.JetStream
	accounts []string
	runs     []*process

	mu        sync.Mutex
	published map[string][]string // ids by account
}

func newManyAccounts(t testing.TB) *manyAccounts {
	t.Helper()
	w := &world{t: t, dir: t.TempDir()}
	w.charges = filepath.Join(w.dir, "charges.jsonl")
	m := &manyAccounts{w: w, nats: newNATSProcess(t, w), published: map[string][]string{}}
	var fixture, accounts strings.Builder
	for n := range 10 {
		name := fmt.Sprintf("shop-%d", n)
		m.accounts = append(m.accounts, name)
		fmt.Fprintf(&fixture, "  - {account_id: acc_%d, email: a%d@example.com, wallet: {currency: USD, sandbox_cents: 5000000}, keys: [{app_id: sbx_app_%d, secret: %q}]}\n", n, n, n, worldSecret)
		fmt.Fprintf(&accounts, "  %s: {base_url: BASE, app_id: sbx_app_%d, secret_file: main.secret, rate_per_second: 1000}\n", name, n)
	}
	w.write("fixture.yaml", "accounts:\n"+fixture.String()+`offers:
  - {offer_code: off_us_1, name: US static, country_code: US, country_name: United States, region: Dallas, line_name: premium,
     ip_type: isp, protocol: socks5, unit_price_cents: 300, base_duration_days: 30, duration_days: [30],
     max_quantity: 500, cidrs: ["198.51.100.0/24"], stock: 100000}
`, 0o600)
	start(t, w.dir, "sandbox", "--fixture", "fixture.yaml", "--charges", w.charges, "--db", ":memory:").ready(&w.sandbox)
	w.write("main.secret", worldSecret, 0o600)
	m.nats.start("pw")
	w.write("perennial.yaml", fmt.Sprintf("data_dir: ./data\nnats: {url: %q}\nhttp: {listen: 127.0.0.1:0}\naccounts:\n%s",
		m.nats.url(), strings.ReplaceAll(accounts.String(), "BASE", w.sandbox.Sandbox)), 0o600)
	var err error
	if m.queue, err = queue.Connect(queue.ConnectConfig{URL: m.nats.url()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.queue.Close)
	nc, js := connectTo(t, m.nats.url())
	t.Cleanup(nc.Close)
	m.js = js
	for n := range 3 {
		m.runs = append(m.runs, nil)
		m.start(n)
	}
	return m
}

func (m *manyAccounts) start(n int) {
	m.w.t.Helper()
	m.runs[n] = start(m.w.t, m.w.dir, "run", "--data", fmt.Sprint("data-", n))
	var line daemon.ReadyLine
	m.runs[n].ready(&line)
}

// holders returns the accounts that each living runner leads, by the runner's name.
func (m *manyAccounts) holders() map[string][]string {
	ctx, cancel := context.WithTimeout(m.w.t.Context(), 5*time.Second)
	defer cancel()
	nodes, err := cluster.Nodes(ctx, m.queue)
	if err != nil {
		m.w.t.Fatal(err)
	}
	by := map[string][]string{}
	for _, n := range nodes {
		by[n.Node] = nil
		for _, a := range n.Accounts {
			if a.Role == "active" {
				by[n.Node] = append(by[n.Node], a.Account)
			}
		}
	}
	return by
}

// awaitShares waits until the runners lead these numbers of accounts, in ascending order.
func (m *manyAccounts) awaitShares(want ...int) {
	t := m.w.t
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("held: %v", m.holders())
			for _, run := range m.runs {
				t.Logf("%v said:\n%s", run.cmd.Args, run.stderr)
			}
		}
	}()
	began := time.Now()
	await(t, fmt.Sprint("the shares are ", want), func() bool {
		var got []int
		for _, held := range m.holders() {
			got = append(got, len(held))
		}
		slices.Sort(got)
		return slices.Equal(got, want)
	})
	t.Logf("shares %v behind %s", want, time.Since(began).Round(100*time.Millisecond))
}

// others returns the names of the living runners except one.
func (m *manyAccounts) others(node string) (all []string) {
	for name := range m.holders() {
		if name != node {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

func (m *manyAccounts) order(ctx context.Context, n int) {
	for _, account := range m.accounts {
		id := fmt.Sprintf("%s-%d", account, n)
		body := fmt.Sprintf(`{"id":%q,"duration_days":30,"items":[{"offer_code":"off_us_1","quantity":1}],"sandbox_scenario":"success"}`, id)
		if _, err := m.js.Publish(ctx, "perennial.commands."+account+".order.create", []byte(body)); err != nil {
			return // the stream may have no leader now; the order was not accepted, and does not count
		}
		m.mu.Lock()
		m.published[account] = append(m.published[account], id)
		m.mu.Unlock()
	}
}

// load publishes orders until end is called. end waits until each order has ended.
func (m *manyAccounts) load(from int) (end func()) {
	ctx, cancel := context.WithCancel(m.w.t.Context())
	var publishing sync.WaitGroup
	publishing.Go(func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for n := from; ; n++ {
			m.order(context.WithoutCancel(ctx), n)
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		cancel()
		publishing.Wait()
		for account, ids := range m.published {
			await(m.w.t, "every order of "+account+" ends", func() bool { return m.ended(account, ids) })
		}
	}
}

func (m *manyAccounts) ended(account string, ids []string) bool {
	question, err := json.Marshal(map[string][]string{"ids": ids})
	if err != nil {
		m.w.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(m.w.t.Context(), 5*time.Second)
	defer cancel()
	answer, err := service.Request(ctx, m.queue.JetStream(), account, verbs.States.Name, question)
	var states map[string]fact.State
	if err != nil || json.Unmarshal(answer, &states) != nil {
		return false
	}
	for _, id := range ids {
		if states[id] != fact.StateDelivered {
			return false
		}
	}
	return true
}

// Each of three runners leads three or four of ten accounts. After a loss the two others lead five
// each within fifteen seconds, and a runner that comes back takes its share. An operator can move
// an account. Under load every order is charged once.
func TestAccountsAreSharedAmongTheRunners(t *testing.T) {
	t.Parallel()
	m := newManyAccounts(t)
	end := m.load(0)
	m.awaitShares(3, 3, 4)
	m.move()
	end()
	m.kill(2)
	m.awaitShares(5, 5)
	end = m.load(10000)
	m.start(2)
	m.awaitShares(3, 3, 4)
	end()
	for _, run := range m.runs {
		if code := run.terminate(); code != cli.ExitDone {
			t.Errorf("%v ended with code %d\n%s", run.cmd.Args, code, run.stderr)
		}
	}
	orders := int64(0)
	for _, ids := range m.published {
		orders += int64(len(ids))
	}
	m.w.control("GET", "/charges", nil)
	if charged, refunded := checkReferee(t, m.w.charges); charged != 300*orders || refunded != 0 {
		t.Errorf("%d orders of 300 cents: charged %d, refunded %d", orders, charged, refunded)
	}
}

// move moves an account as an operator would, and removes the pin again.
func (m *manyAccounts) move() {
	t := m.w.t
	t.Helper()
	account := m.accounts[0]
	var from string
	for node, held := range m.holders() {
		if slices.Contains(held, account) {
			from = node
		}
	}
	for _, to := range m.others(from) {
		out := decode[cli.Moved](t, m.w.mustCLI("account", "move", account, "--to", to, "-o", "json"))
		want := cli.Moved{Account: account, From: from, Node: to, Pinned: true}
		if out.From == "" { // a late heartbeat: the account's leader was not known
			want.From = ""
		}
		if out != want {
			t.Errorf("%+v, and not %+v", out, want)
		}
		await(t, to+" has the account", func() bool { return slices.Contains(m.holders()[to], account) }) // a heartbeat may be late
		from = to
	}
	for _, wrong := range [][]string{{account, "--to", "nobody"}, {"shop-none", "--to", from}, {account}, {account, "--to", from, "--anywhere"}} {
		_, errs, code := m.w.cli(append([]string{"account", "move"}, wrong...)...)
		if code != cli.ExitUsage || wrong[len(wrong)-1] == "nobody" && !strings.Contains(errs, from) {
			t.Errorf("account move %v: %d %s", wrong, code, errs)
		}
	}
	m.w.mustCLI("account", "move", account, "--anywhere")
}

// kill kills a runner, and waits until the others lead all accounts.
func (m *manyAccounts) kill(n int) {
	t := m.w.t
	t.Helper()
	before := m.holders()
	m.runs[n].kill()
	killed := time.Now()
	await(t, "the others run all accounts", func() bool {
		running := 0
		for node, held := range m.holders() {
			running += len(held)
			if len(held) > 0 && len(before[node]) > len(held) {
				t.Fatalf("%s had %v, and has %v", node, before[node], held)
			}
		}
		return running == len(m.accounts) && len(m.holders()) == 2
	})
	t.Logf("all accounts run again %s behind the loss", time.Since(killed).Round(100*time.Millisecond))
}
