// The provider of `perennial bench`: the sandbox in a process of its own, with the
// accounts, keys and proxies that are measured.

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"perennial/upstream"
)

const (
	benchSecret = "a-benchmark-needs-no-secret"
	benchCents  = 300 // of a proxy for 30 days
)

// benchAppID is the key of the sandbox's i-th account, from 0.
func benchAppID(i int) string { return "sbx_app_bench" + ordinal(i) }

// ordinal tells the accounts apart; the first has none.
func ordinal(i int) string {
	if i == 0 {
		return ""
	}
	return strconv.Itoa(i + 1)
}

// proxyName is the sandbox fixture's name of an account's n-th proxy, both from 0.
func proxyName(account, n int) string { return "px" + ordinal(account) + "_" + strconv.Itoa(n+1) }

// parts is how many times the commands are carried out: by the direct client, the runner,
// the runner that drains, the runner with open pages, the runner with another server.
func (b *bench) parts() int {
	parts := 2
	if b.drain {
		parts++
	}
	if b.openPages > 0 {
		parts++
	}
	if b.outer != nil {
		parts++
	}
	return parts
}

// share is how many of the commands an account gets at most, in each part.
func (b *bench) share() int { return (b.commands + b.accounts - 1) / b.accounts }

// fixture is what the sandbox begins with: for each account proxies, and money for as many
// requests.
func (b *bench) fixture() map[string]any {
	accounts, proxies := make([]any, 0, b.accounts), make([]any, 0, b.accounts)
	each := b.parts() * b.share()
	for i := range b.accounts {
		id := "acc_bench" + ordinal(i)
		accounts = append(accounts, map[string]any{
			"account_id": id, "email": "bench" + ordinal(i) + "@example.com",
			"wallet": map[string]any{"currency": "USD", "sandbox_cents": int64(each) * benchCents},
			"keys":   []any{map[string]any{"app_id": benchAppID(i), "secret": benchSecret}},
		})
		proxies = append(proxies, map[string]any{
			"count": each, "prefix": "px" + ordinal(i) + "_", "account_id": id, "environment": "sandbox", "offer_code": "off_bench", "expires_in": "24h..240h",
		})
	}
	return map[string]any{
		"accounts": accounts, "proxies": proxies,
		"offers": []any{map[string]any{
			"offer_code": "off_bench", "name": "bench", "country_code": "US", "country_name": "United States", "region": "Dallas",
			"line_name": "premium", "ip_type": "isp", "protocol": "socks5", "unit_price_cents": benchCents, "base_duration_days": 30,
			"duration_days": []int{30}, "max_quantity": 500, "cidrs": []string{"198.51.100.0/24"}, "stock": (b.parts() + 1) * b.accounts * b.share(),
		}},
	}
}

// startSandbox runs the sandbox as its own process, in memory, as the referee
// of all parts. The context that it returns ends with it.
func (b *bench) startSandbox(ctx context.Context) (_ context.Context, stop func(), err error) {
	text, err := json.Marshal(b.fixture())
	if err != nil {
		return nil, nil, err
	}
	file := filepath.Join(b.dir, "fixture.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, nil, err
	}
	alive, cancel := context.WithCancelCause(ctx)
	box, err := b.startHelper(ctx, "the sandbox", func() { cancel(errors.New("the sandbox has ended")) },
		"sandbox", "--json", "--"+helpsFlag, "--fixture", file, "--charges", filepath.Join(b.dir, "charges.jsonl"), "--charges-nosync")
	if err != nil {
		cancel(nil)
		return nil, nil, err
	}
	var line SandboxReadyLine
	if err := box.answer(ctx, &line); err != nil {
		box.stop()
		return nil, nil, fmt.Errorf("the sandbox did not start: %w", err)
	}
	b.base = line.Sandbox
	return alive, box.stop, nil
}

// openClients makes the clients with which the proxies are listed and the books checked.
func (b *bench) openClients() error {
	for i := range b.accounts {
		client, err := upstream.New(upstream.Config{BaseURL: b.base, AppID: benchAppID(i), Secret: benchSecret, Clock: time.Now})
		if err != nil {
			return err
		}
		b.clients = append(b.clients, client)
	}
	return nil
}

func (b *bench) closeClients() {
	for _, c := range b.clients {
		c.Close()
	}
}
