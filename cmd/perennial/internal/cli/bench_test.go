package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"perennial/cmd/perennial/internal/bench"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// benchDir is an empty temporary directory for a benchmark. The benchmark's helper processes run
// this test binary.
func benchDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("PERENNIAL_TEST_EXEC", "1")
	t.Setenv("TMPDIR", dir)
	t.Chdir(t.TempDir())
	return dir
}

func perennial(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var o, e bytes.Buffer
	code = Program{Args: args, Stdin: strings.NewReader(""), Stdout: &o, Stderr: &e}.Main(t.Context())
	return code, o.String(), e.String()
}

func TestBenchPrintsWhatTheContractNames(t *testing.T) {
	_ = benchDir(t)
	code, stdout, stderr := perennial(t, "bench", "--commands", "20", "--concurrency", "4", "-o", "json")
	if code != ExitDone {
		t.Fatalf("exit %d\n%s%s", code, stdout, stderr)
	}
	var raw map[string]any
	must(t, json.Unmarshal([]byte(stdout), &raw))
	keys := []string{
		"kind", "commands", "concurrency", "cores", "direct_per_second", "runner_per_second", "ratio", "direct_cpu_us_per_command",
		"runner_cpu_us_per_command", "allocations_per_command", "p50_ms", "p99_ms", "peak_memory_bytes", "wallet_cents", "books_agree",
		"ledger_bytes", "sandbox_processes", "in_flight", "accounts", "rows_before",
	}
	for _, key := range keys {
		if _, ok := raw[key]; !ok {
			t.Errorf("%s is not there", key)
		}
	}
	if len(raw) != len(keys) {
		t.Errorf("%d keys: %s", len(raw), stdout)
	}
}

func TestBenchRefusesWrongFlags(t *testing.T) {
	_ = benchDir(t) // a flag that is not refused starts a benchmark, which runs this test binary
	for _, args := range [][]string{
		{"--commands", "0"},
		{"--concurrency", "0"},
		{"--concurrency", "1025"},
		{"--kind", "refund"},
		{"--in-flight", "0"},
		{"--in-flight", "-1"},
		{"--in-flight", "32769"},
		{"--in-flight", "x"},
		{"--accounts", "0"},
		{"--accounts", "33"}, // with 64 requests each
		{"--accounts", "3", "--concurrency", "1000"},
		{"--accounts", "3", "--commands", "2"},
		{"--rows", "-1"},
		{"--rows", "2", "--nats", "nats://127.0.0.1:1"},
		{"--accounts", "2", "--nats", "nats://127.0.0.1:1"},
		{"--drain=perhaps"},
		{"--profile"},
	} {
		code, stdout, stderr := perennial(t, append([]string{"bench"}, args...)...)
		if code != ExitUsage || stdout != "" || !strings.Contains(stderr, args[0][:5]) {
			t.Errorf("%v: exit %d\n%s%s", args, code, stdout, stderr)
		}
	}
}

func TestBenchProcessesAreHiddenAndNeedABenchmark(t *testing.T) {
	if code, _, stderr := perennial(t, bench.Command, "load"); code != ExitUsage || !strings.Contains(stderr, "`perennial bench`") {
		t.Errorf("exit %d\n%s", code, stderr)
	}
	if _, stdout, _ := perennial(t, "--help"); strings.Contains(stdout, bench.Command) || !strings.Contains(stdout, "bench ") {
		t.Errorf("%s", stdout)
	}
}
