// Small runs of `perennial bench` with every flag: what it prints, and that the books agree.

package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"perennial/ledger"
	"perennial/ledger/fact"
)

// benched runs a small benchmark, and fails the test unless it ends well and leaves nothing
// in the temporary directory.
func benched(t *testing.T, args ...string) (out benchResult, raw map[string]any) {
	t.Helper()
	dir := benchDir(t)
	var o, e bytes.Buffer
	args = append([]string{"bench", "--commands", "60", "--concurrency", "4", "-o", "json"}, args...)
	code := Program{Args: args, Stdin: strings.NewReader(""), Stdout: &o, Stderr: &e}.Main(t.Context())
	if code != ExitDone {
		t.Fatalf("exit %d\n%s%s", code, &o, &e)
	}
	must(t, json.Unmarshal(o.Bytes(), &out))
	must(t, json.Unmarshal(o.Bytes(), &raw))
	if !out.BooksAgree || out.DirectPerSecond <= 0 || out.RunnerPerSecond <= 0 || out.Ratio != out.RunnerPerSecond/out.DirectPerSecond {
		t.Errorf("%s", &o)
	}
	if out.RunnerCPUMicros <= 0 || out.RunnerAllocations < 10 || out.P50Millis <= 0 || out.P99Millis < out.P50Millis || out.PeakMemoryBytes <= 0 || out.LedgerBytes <= 0 {
		t.Errorf("%s", &o)
	}
	nothingLeft(t, dir)
	return out, raw
}

// benchDir is an empty temporary directory for a benchmark, whose helpers are this binary.
func benchDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("PERENNIAL_TEST_EXEC", "1")
	t.Setenv("TMPDIR", dir)
	t.Chdir(t.TempDir())
	return dir
}

func TestBenchPrintsWhatTheContractNames(t *testing.T) {
	out, raw := benched(t)
	for _, key := range []string{
		"kind", "commands", "concurrency", "cores", "direct_per_second", "runner_per_second", "ratio", "direct_cpu_us_per_command",
		"runner_cpu_us_per_command", "allocations_per_command", "p50_ms", "p99_ms", "peak_memory_bytes", "wallet_cents", "books_agree",
		"ledger_bytes", "sandbox_processes", "in_flight", "accounts", "rows_before",
	} {
		if _, ok := raw[key]; !ok {
			t.Errorf("%s is not there", key)
		}
	}
	if out.Kind != "renew" || out.Commands != 60 || out.Accounts != 1 || out.InFlight != publishAhead || out.Drained != nil || out.WalletCents != 0 || out.RowsBefore > 10 {
		t.Errorf("%+v", out)
	}
}

func TestBenchInFlightIsWhatAUserWaits(t *testing.T) {
	for _, inFlight := range []string{"1", "4"} {
		out, _ := benched(t, "--in-flight", inFlight, "--kind", "order")
		// As many as are under way at once finish in the time that each takes.
		if under := out.RunnerPerSecond * out.P50Millis / 1000; under > 2*float64(out.InFlight) || out.InFlight > 4 {
			t.Errorf("--in-flight %s: %.1f commands under way on average: %+v", inFlight, under, out)
		}
	}
}

func TestBenchHasPagesOpenMeanwhile(t *testing.T) {
	out, _ := benched(t, "--drain", "--open-pages", "3")
	p := out.Pages
	if p == nil || p.Open != 3 || p.Loaded < 3 || p.PerSecond <= 0 || p.Ratio != p.PerSecond/out.RunnerPerSecond || p.P99Millis < p.P50Millis || !out.BooksAgree {
		t.Fatalf("%+v", p)
	}
	if out.WalletCents != 0 { // four parts, each paid once
		t.Errorf("%d cents are left", out.WalletCents)
	}
}

func TestBenchDrainsAQueueThatWasFull(t *testing.T) {
	dir := t.TempDir()
	out, _ := benched(t, "--drain", "--profile", filepath.Join(dir, "new", "p"))
	d := out.Drained
	if d == nil || d.PerSecond <= 0 || d.Ratio != d.PerSecond/out.DirectPerSecond || d.CPUMicros <= 0 || d.Allocations < 10 || !d.BooksAgree {
		t.Fatalf("%+v", d)
	}
	if d.RowsBefore < 60*3 { // it is the ledger of the part before
		t.Errorf("%d rows", d.RowsBefore)
	}
	if out.WalletCents != 0 { // three parts, each paid once
		t.Errorf("%d cents are left", out.WalletCents)
	}
	for _, part := range []string{"", "drained."} {
		for _, kind := range []string{"cpu", "allocs", "allocs-before", "heap", "mutex"} {
			text, err := os.ReadFile(filepath.Join(dir, "new", "p", part+kind+".pprof"))
			must(t, err)
			if !bytes.HasPrefix(text, []byte{0x1f, 0x8b}) { // gzip, as pprof reads it
				t.Errorf("%s%s.pprof: %d bytes", part, kind, len(text))
			}
		}
	}
}

func TestBenchSpreadsCommandsAmongAccounts(t *testing.T) {
	for _, kind := range []string{"renew", "order"} {
		out, _ := benched(t, "--kind", kind, "--accounts", "3", "--commands", "61", "--drain")
		// Each account has the money of 21 commands a part: one that got more would fail.
		if left := int64(3*21-61) * 3 * benchCents; out.Accounts != 3 || out.WalletCents != left || !out.Drained.BooksAgree {
			t.Errorf("%+v, and %d cents should be left", out, left)
		}
	}
}

func TestBenchRowsAreThereBefore(t *testing.T) {
	out, _ := benched(t, "--rows", "1001", "--accounts", "2")
	if out.RowsBefore < 1001 || out.RowsBefore > 1001+20 {
		t.Errorf("%d rows", out.RowsBefore)
	}
}

// TestAFilledLedgerIsOneThatARunnerWrote: the projections, the books and the chain hold
// what was filled in.
func TestAFilledLedgerIsOneThatARunnerWrote(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.ledger.db")
	plan := fillPlan{Path: path, Rows: 3999, AppID: "sbx_app_x", WalletCents: 77, Binding: fact.Binding{AccountID: "acc_x", Environment: "sandbox", BaseURL: "http://x", Currency: "USD", Epoch: "e"}}
	rows, err := plan.fill(t.Context())
	if must(t, err); rows != 4001 {
		t.Fatalf("%d rows", rows)
	}
	l, err := ledger.Open(t.Context(), ledger.Config{Path: path, Clock: time.Now, ReadOnly: true})
	must(t, err)
	defer func() { must(t, l.Close()) }()
	v, err := l.Verify(t.Context())
	if must(t, err); v.Rows != rows {
		t.Errorf("%d rows are verified", v.Rows)
	}
	b, err := l.Balance(t.Context(), "x")
	if must(t, err); b.WalletCents != 77 || b.ChargedCents != 1000*benchCents {
		t.Errorf("%+v", b)
	}
	bound, err := l.Binding(t.Context())
	if must(t, err); bound != plan.Binding {
		t.Errorf("%+v", bound)
	}
	id, proxy := filled(999)
	operations, err := l.OperationsOf(t.Context(), id)
	if must(t, err); len(operations) != 1 || operations[0].State != fact.StateCompleted {
		t.Errorf("%+v", operations)
	}
	last, err := l.LastRenewal(t.Context(), proxy)
	if must(t, err); time.Since(last.SettledAt) < 23*time.Hour || time.Since(last.SettledAt) > fillPast {
		t.Errorf("%+v", last)
	}
}

func TestBenchRefusesWrongFlags(t *testing.T) {
	_ = benchDir(t) // what is not refused is a benchmark, and its helpers are this binary
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
		{"--cpuprofile", "a", "--profile", "b"},
		{"--drain=perhaps"},
		{"--profile"},
	} {
		var o, e bytes.Buffer
		code := Program{Args: append([]string{"bench"}, args...), Stdin: strings.NewReader(""), Stdout: &o, Stderr: &e}.Main(t.Context())
		if code != ExitUsage || o.Len() > 0 || !strings.Contains(e.String(), args[0][:5]) {
			t.Errorf("%v: exit %d\n%s%s", args, code, &o, &e)
		}
	}
}

func TestBenchHelpersAreHiddenAndDoNothingByThemselves(t *testing.T) {
	for _, name := range []string{loadName, fillName} {
		var o, e bytes.Buffer
		code := Program{Args: []string{name}, Stdin: strings.NewReader(""), Stdout: &o, Stderr: &e}.Main(t.Context())
		if code != ExitUsage || !strings.Contains(e.String(), "`perennial bench`") {
			t.Errorf("%s: exit %d\n%s%s", name, code, &o, &e)
		}
	}
	var o, e bytes.Buffer
	_ = Program{Args: []string{"--help"}, Stdin: strings.NewReader(""), Stdout: &o, Stderr: &e}.Main(t.Context())
	if strings.Contains(o.String(), loadName) || !strings.Contains(o.String(), "bench ") {
		t.Errorf("%s", &o)
	}
}

// benchProcesses are, on Linux, the processes with that temporary directory which run a command of
// the program.
func benchProcesses(t *testing.T, dir, command string) (pids []int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	must(t, err)
	for _, file := range all {
		environ, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(append([]byte{0}, environ...), []byte("\x00TMPDIR="+dir+"\x00")) {
			continue // it has ended, or is another's
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		must(t, err)
		args, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		if fields := strings.Split(string(args), "\x00"); pid != os.Getpid() && len(fields) > 1 && (command == "" || fields[1] == command) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// nothingLeft fails where a process or a file of a benchmark is there.
func nothingLeft(t *testing.T, dir string) {
	t.Helper()
	if pids := benchProcesses(t, dir, ""); len(pids) > 0 {
		t.Errorf("processes are left: %v", pids)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("files are left: %v %v", files, err)
	}
}
