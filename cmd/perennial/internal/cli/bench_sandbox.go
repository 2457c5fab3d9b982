// The provider of `perennial bench`: the sandbox in a process of its own.

package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
)

// startSandbox runs the sandbox as its own process, in memory, as the referee
// of both runs.
func (b *bench) startSandbox(ctx context.Context) (stop func(), err error) {
	fixture := map[string]any{
		"accounts": []any{map[string]any{
			"account_id": "acc_bench", "email": "bench@example.com",
			"wallet": map[string]any{"currency": "USD", "sandbox_cents": int64(b.commands) * 3 * 300},
			"keys":   []any{map[string]any{"app_id": benchAppID, "secret": benchSecret}},
		}},
		"offers": []any{map[string]any{
			"offer_code": "off_bench", "name": "bench", "country_code": "US", "country_name": "United States", "region": "Dallas",
			"line_name": "premium", "ip_type": "isp", "protocol": "socks5", "unit_price_cents": 300, "base_duration_days": 30,
			"duration_days": []int{30}, "max_quantity": 500, "cidrs": []string{"198.51.100.0/24"}, "stock": 4 * b.commands,
		}},
		"proxies": []any{map[string]any{
			"count": 3 * b.commands, "prefix": "px_", "account_id": "acc_bench", "environment": "sandbox", "offer_code": "off_bench", "expires_in": "24h..240h",
		}},
	}
	text, err := json.Marshal(fixture)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(b.dir, "fixture.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "sandbox", "--json", "--fixture", file, "--charges", filepath.Join(b.dir, "charges.jsonl"), "--charges-nosync")
	cmd.Stderr = b.app.stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop = func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}
	var line SandboxReadyLine
	if err := json.NewDecoder(bufio.NewReader(pipe)).Decode(&line); err != nil {
		stop()
		return nil, fmt.Errorf("the sandbox did not start: %w", err)
	}
	b.base = line.Sandbox
	return stop, nil
}

// proxyName is the sandbox fixture's name of its n-th proxy, from 0.
func proxyName(n int) string { return "px_" + strconv.Itoa(n+1) }
