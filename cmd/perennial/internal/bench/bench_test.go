// Small benchmarks of every part: their figures are plausible, the books agree, and no file or
// process is left.
package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/files"
	"perennial/ledger/testrun"
)

// TestMain also runs the helper processes of the tests' benchmarks.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == Command {
		if Serve(context.Background(), os.Stdin, os.Stdout, quiet()) != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	remove := testrun.Prepare()
	code := m.Run()
	remove()
	os.Exit(code)
}

func quiet() *logrus.Logger {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return log
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// small returns the options of a benchmark that takes moments.
func small() Options {
	return Options{
		Kind: "renew", Commands: 61, Concurrency: 4, Accounts: 1, Log: quiet(), Stderr: io.Discard,
		Write: func(path string, write func(io.Writer) error) error { return files.Write(path, 0o600, write) },
	}
}

// measured runs a benchmark. The test fails unless it succeeds and leaves nothing in the temporary
// directory.
func measured(t *testing.T, o Options) Result {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	must(t, o.Check())
	out, err := Run(t.Context(), o)
	if must(t, err); !out.Agree() || out.DirectPerSecond <= 0 || out.DirectCPUMicros <= 0 || out.PerSecond <= 0 || out.Ratio != out.PerSecond/out.DirectPerSecond {
		t.Errorf("%+v", out)
	}
	if out.CPUMicros <= 0 || out.Allocations < 10 || out.P50Millis <= 0 || out.P99Millis < out.P50Millis || out.PeakMemoryBytes <= 0 || out.LedgerBytes <= 0 {
		t.Errorf("%+v", out)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("files are left: %v %v", left, err)
	}
	return out
}

func TestEveryPartOfTheEmbeddedRunnerIsMeasured(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "p")
	o := small()
	o.Accounts, o.Drain, o.Rows, o.Profiles = 3, true, 1001, dir
	out := measured(t, o)
	// Each account has money for 21 commands in each part, so that a part with more commands would
	// fail.
	if left := int64(3*21-61) * 3 * cents; out.Accounts != 3 || out.WalletCents != left || out.InFlight != batchSize {
		t.Errorf("%+v, and %d cents should be left", out, left)
	}
	if out.RowsBefore < 1001 || out.RowsBefore > 1001+20 {
		t.Errorf("%d rows before", out.RowsBefore)
	}
	if d := out.Drained; d.PerSecond <= 0 || d.Ratio != d.PerSecond/out.DirectPerSecond || d.CPUMicros <= 0 || d.Allocations < 10 || !d.BooksAgree || d.RowsBefore < out.RowsBefore+20*3 {
		t.Errorf("%+v", d)
	}
	for _, part := range []string{"", "drained."} {
		for _, kind := range []string{"cpu", "allocs", "allocs-before", "heap", "mutex"} {
			text, err := os.ReadFile(filepath.Join(dir, part+kind+".pprof"))
			if must(t, err); !bytes.HasPrefix(text, []byte{0x1f, 0x8b}) { // pprof files are gzip
				t.Errorf("%s%s.pprof: %d bytes", part, kind, len(text))
			}
		}
	}
}

func TestInFlightIsWhatAUserWaits(t *testing.T) {
	for _, inFlight := range []int{1, 4} {
		o := small()
		o.Kind, o.InFlight, o.Drain = "order", inFlight, inFlight == 4
		out := measured(t, o)
		// In the time of one command, as many commands finish as are in progress (Little's law).
		if under := out.PerSecond * out.P50Millis / 1000; under > 2*float64(inFlight) || out.InFlight != inFlight || out.WalletCents != 0 {
			t.Errorf("%d in flight: %.1f commands in progress on average: %+v", inFlight, under, out)
		}
	}
}

// The projections, the books and the chain verify over the filled rows.
func TestAFilledLedgerIsOneThatARunnerWrote(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.ledger.db")
	task := History{Path: path, Rows: 3999, AppID: "sbx_app_x", WalletCents: 77, Binding: fact.Binding{AccountID: "acc_x", Environment: "sandbox", BaseURL: "http://x", Currency: "USD", Epoch: "e"}}
	must(t, task.fill(t.Context()))
	l, err := ledger.Open(t.Context(), ledger.Config{Path: path, Clock: time.Now, ReadOnly: true})
	must(t, err)
	defer func() { must(t, l.Close()) }()
	v, err := l.Verify(t.Context())
	if must(t, err); v.Rows != 4001 {
		t.Errorf("%d rows are verified", v.Rows)
	}
	b, err := l.Money.Balance(t.Context(), "x")
	if must(t, err); b.WalletCents != 77 || b.ChargedCents != 1000*cents {
		t.Errorf("%+v", b)
	}
	bound, err := l.Binding(t.Context())
	if must(t, err); bound != task.Binding {
		t.Errorf("%+v", bound)
	}
	id, proxy := filled(999)
	operations, err := l.Operations.OperationsOf(t.Context(), id)
	if must(t, err); len(operations) != 1 || operations[0].State != fact.StateCompleted {
		t.Errorf("%+v", operations)
	}
	last, err := l.Fleet.LastRenewal(t.Context(), proxy)
	if must(t, err); time.Since(last.SettledAt) < 23*time.Hour || time.Since(last.SettledAt) > fillPast {
		t.Errorf("%+v", last)
	}
}

func TestAProcessNeedsATask(t *testing.T) {
	for _, input := range []string{"", "not a call"} {
		if err := Serve(t.Context(), strings.NewReader(input), io.Discard, quiet()); !errors.Is(err, ErrNoTask) {
			t.Errorf("%q: %v", input, err)
		}
	}
}

func TestTheTableHasEveryPart(t *testing.T) {
	u, l := Used{100, 200, 300}, Latency{1, 2}
	r := Result{
		Kind: "renew", Commands: 10, Concurrency: 4, InFlight: 512, Accounts: 2, Cores: 2, DirectPerSecond: 400, DirectCPUMicros: 50, Ratio: .25, PeakMemoryBytes: 64 << 20,
		Carried: Carried{Used: u, Latency: l, BooksAgree: true, LedgerBytes: 3 << 20, RowsBefore: 7, ledgerBytesBefore: 2 << 20},
		Drained: &Drained{Carried{Used: u}, .25},
		Outer:   &Outer{Servers: 3, Replicas: 3, Carried: Carried{Used: u, Latency: l, LedgerBytes: 100}, Groups: 4, RowsPerGroup: 10, PublishMillis: 5, PublishShare: .3, BetweenMillis: 6, ProviderMillis: 7, EventsBytes: 200},
	}
	var text strings.Builder
	for _, row := range r.Table() {
		fmt.Fprintln(&text, strings.Join(row, "|"))
	}
	const want = `commands|10 at concurrency 4 on 2 cores each, for 2 accounts, behind 7 rows (2 MiB)
direct|400/s, 50 us of CPU each
runner|100/s, 200 us of CPU and 300 allocations each
ratio|0.25
publish to event|p50 1.0 ms, p99 2.0 ms, 512 in flight
full queue|100/s (ratio 0.25), 200 us of CPU and 300 allocations each
peak memory|64 MiB
ledger|104858 bytes a command
books agree|true
|
with --nats|3 servers, 3 replicas
runner|100/s, 200 us of CPU each (embedded: 100/s, 200 us)
publish to event|p50 1.0 ms, p99 2.0 ms (embedded: 1.0, 2.0)
events stream|4 groups of 10.0 rows, 5.00 ms each: 30% of the time
all else of the writer|6.00 ms between two groups: gathering, SQLite, the commit
provider|7.00 ms a request
disk|ledger 10, events 20 bytes a command
books agree|false
`
	if got := text.String(); got != want || r.Agree() {
		t.Errorf("%s", got)
	}
}
