// The provider of all measurements: `perennial sandbox` in a process of its own, in
// memory, and its file of charges, which is the referee.

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const (
	sandboxAppID  = "sbx_app_peers"
	sandboxSecret = "a-benchmark-needs-no-secret"
	sandboxCents  = 300 // of a proxy for 30 days
)

// sandbox is a provider that runs.
type sandbox struct {
	process *process
	base    string // of its API
	control string
	referee referee
}

// startSandbox starts a provider with so many proxies, and money to renew each often.
func startSandbox(r *rig, proxies int) (*sandbox, error) {
	dir, err := os.MkdirTemp(r.dir, "sandbox-*")
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(fixture(proxies))
	if err != nil {
		return nil, err
	}
	file, charges := filepath.Join(dir, "fixture.json"), filepath.Join(dir, "charges.jsonl")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	s := &sandbox{referee: referee{path: charges}}
	s.process, err = spawn(r.dir, "sandbox", nil, r.perennial, "sandbox", "--json", "--fixture", file, "--charges", charges, "--charges-nosync")
	if err != nil {
		return nil, err
	}
	var line struct {
		Sandbox string `json:"sandbox"`
		Control string `json:"control"`
	}
	if err := s.process.answer(startWithin, &line); err != nil {
		return nil, errors.Join(err, s.process.stop(syscall.SIGKILL))
	}
	s.base, s.control = line.Sandbox, line.Control
	return s, nil
}

func fixture(proxies int) map[string]any {
	return map[string]any{
		"accounts": []any{map[string]any{
			"account_id": "acc_peers", "email": "peers@example.com",
			"wallet": map[string]any{"currency": "USD", "sandbox_cents": int64(proxies) * sandboxCents * 30},
			"keys":   []any{map[string]any{"app_id": sandboxAppID, "secret": sandboxSecret}},
		}},
		"offers": []any{map[string]any{
			"offer_code": "off_peers", "name": "peers", "country_code": "US", "country_name": "United States", "region": "Dallas",
			"line_name": "premium", "ip_type": "isp", "protocol": "socks5", "unit_price_cents": sandboxCents, "base_duration_days": 30,
			"duration_days": []int{30}, "max_quantity": 500, "cidrs": []string{"198.51.100.0/24"}, "stock": proxies + 1,
		}},
		"proxies": []any{map[string]any{
			"count": proxies, "prefix": "px_", "account_id": "acc_peers", "environment": "sandbox", "offer_code": "off_peers", "expires_in": "24h..240h",
		}},
	}
}

// delay has every renewal wait before it is carried out: at least so long, at most with
// jitter. One whose client has left meanwhile is carried out all the same.
func (s *sandbox) delay(least, jitter time.Duration) error {
	body, err := json.Marshal(map[string]any{"method": http.MethodPost, "milliseconds": least.Milliseconds(), "jitter_milliseconds": jitter.Milliseconds()})
	if err != nil {
		return err
	}
	resp, err := http.Post(s.control+"/latency", "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("POST /latency: %s", resp.Status)
	}
	return nil
}

func (s *sandbox) stop() error { return s.process.stop(syscall.SIGTERM) }

// referee reads the sandbox's file of charges, as it grows.
type referee struct {
	path    string
	text    []byte // read so far
	charges int    // lines in it
}

// read takes in what came since it last did, and counts it. It decodes nothing: it is
// called while something is measured.
func (r *referee) read() error {
	file, err := os.Open(r.path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	more, err := io.ReadAll(io.NewSectionReader(file, int64(len(r.text)), 1<<40))
	if err != nil {
		return err
	}
	more = more[:bytes.LastIndexByte(more, '\n')+1]
	r.text = append(r.text, more...)
	r.charges += bytes.Count(more, []byte{'\n'})
	return nil
}

// tally is what a run came to, by the referee.
type tally struct {
	lost    int   // jobs without a charge
	doubled int   // jobs with more than one
	extra   int   // charges over the first of each job
	cents   int64 // of all charges
}

// count judges the jobs 1 to jobs.
func (r *referee) count(jobs int) (t tally, err error) {
	by := map[string]int{}
	for line := range bytes.Lines(r.text) {
		var charge struct {
			Kind        string `json:"kind"`
			ProxyID     string `json:"proxy_id"`
			AmountCents int64  `json:"amount_cents"`
		}
		if err := json.Unmarshal(line, &charge); err != nil {
			return t, fmt.Errorf("%s: %w", r.path, err)
		}
		if charge.Kind != "charge" {
			return t, fmt.Errorf("%s has a %s: %s", r.path, charge.Kind, line)
		}
		t.cents += charge.AmountCents
		by[charge.ProxyID]++
	}
	for n := 1; n <= jobs; n++ {
		switch charges := by[proxyOf(n)]; {
		case charges == 0:
			t.lost++
		case charges > 1:
			t.doubled++
			t.extra += charges - 1
		}
	}
	return t, nil
}
