package crashtest

import (
	"errors"
	"net/http"
	"testing"

	"perennial/cmd/perennial/internal/cli"
	"perennial/upstream"
	"perennial/upstream/sandbox"
)

// A key over its rate gets the flag's Retry-After. The security policy refuses a script's default
// User-Agent.
func TestSandboxFlags(t *testing.T) {
	t.Parallel()
	p := start(t, t.TempDir(), "sandbox", "--rate", "0.001", "--refuse-script-agents", "--max-connections", "5", "--db", "sandbox.db", "--charges", "charges.jsonl")
	var line cli.SandboxReadyLine
	p.ready(&line)
	c, err := upstream.New(upstream.Config{BaseURL: line.Sandbox, AppID: sandbox.DemoSandboxAppID, Secret: sandbox.DemoSandboxSecret})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Wallet(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err = c.Wallet(t.Context())
	e, ok := errors.AsType[*upstream.Error](err)
	if !ok || e.Code != upstream.CodeRateLimited || !e.RetryAfter.Valid || e.RetryAfter.Delay < 1 {
		t.Errorf("%v", err)
	}
	response, err := http.Get(line.Sandbox + "/api/v1/wallet") // the User-Agent is Go-http-client
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusForbidden {
		t.Errorf("HTTP %d", response.StatusCode)
	}
	if code := p.terminate(); code != 0 {
		t.Errorf("exit code %d: %s", code, p.stderr)
	}
	for _, wrong := range [][]string{{"--rate", "-1"}, {"--moods", "sunny"}} {
		if p := start(t, t.TempDir(), append([]string{"sandbox"}, wrong...)...); p.wait() == 0 {
			t.Errorf("sandbox accepts %v", wrong)
		}
	}
	moody := start(t, t.TempDir(), "sandbox", "--moods", "unknown_fields,second_array", "--mood-seed", "3", "--async-delay", "5ms", "--delayed-delay", "10ms")
	moody.ready(&line)
	if code := moody.terminate(); code != 0 {
		t.Errorf("exit code %d: %s", code, moody.stderr)
	}
}
