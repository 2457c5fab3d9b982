package ledger

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"
)

// scaleRows is how long a journal BenchmarkScale grows. The figures of a large
// book come from: go test -run '^$' -bench Scale -benchtime 1x -timeout 2h ./ledger -scale.rows 10000000
var scaleRows = flag.Int64("scale.rows", 30_000, "journal rows that BenchmarkScale writes before it measures")

// BenchmarkScale measures a large book: the cost of a renewal compared with an empty file,
// the time of a balance, a verification, a rebuild and an archiving, and the disk space.
func BenchmarkScale(b *testing.B) {
	path := filepath.Join(b.TempDir(), "scale.ledger.db")
	l, err := Open(context.Background(), Config{Path: path, Clock: time.Now})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	for b.Loop() {
		n := 0
		for int64(3*n) < *scaleRows {
			benchRenewals(b, l, n, scaleSample)
			n += scaleSample
		}
		n = scaleAppends(b, l, n)
		begin := time.Now()
		if _, err := l.Money.Balance(context.Background(), "main"); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(time.Since(begin).Microseconds())/1000, "ms/balance")
		begin = time.Now()
		v, err := l.Verify(context.Background())
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(v.Rows)/time.Since(begin).Seconds(), "rows/s-verify")
		b.ReportMetric(float64(v.Rows), "rows")
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		b.ReportMetric(float64(m.Sys)/(1<<20), "MiB-from-OS")
		scaleCopies(b, l, path, n)
	}
}

// scaleSample is how many renewals one measurement writes: enough for several
// checkpoints.
const scaleSample = 9600

// scaleAppends compares the cost of a renewal in the full file and in an empty one. It
// alternates and takes the median, because the machine is noisy. It returns the number of
// renewals in the full file afterwards.
func scaleAppends(b *testing.B, full *Ledger, n int) int {
	b.Helper()
	const turns = 9
	var ratios, costs []float64
	for turn := range turns {
		empty, err := Open(context.Background(), Config{Path: filepath.Join(b.TempDir(), fmt.Sprintf("empty%d.ledger.db", turn)), Clock: time.Now})
		if err != nil {
			b.Fatal(err)
		}
		inEmpty := benchRenewals(b, empty, 0, scaleSample)
		if err := empty.Close(); err != nil {
			b.Fatal(err)
		}
		inFull := benchRenewals(b, full, n, scaleSample)
		n += scaleSample
		ratios = append(ratios, float64(inFull)/float64(inEmpty))
		costs = append(costs, float64(inFull.Microseconds())/scaleSample)
	}
	slices.Sort(ratios)
	slices.Sort(costs)
	b.ReportMetric(costs[turns/2], "us/renewal-full")
	b.ReportMetric(ratios[turns/2], "full/empty")
	b.ReportMetric(ratios[0], "full/empty-least")
	b.ReportMetric(ratios[turns-1], "full/empty-most")
	b.Logf("a renewal in the full file as against one in an empty file, by turns: %.2f", ratios)
	return n
}

// scaleCopies measures a rebuild and an archiving of the first half, and the disk space of
// each renewal before and after. It closes the ledger.
func scaleCopies(b *testing.B, l *Ledger, path string, renewals int) {
	b.Helper()
	begin := time.Now()
	rebuilt := path + ".rebuilt"
	v, err := l.Rebuild(context.Background(), rebuilt)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(v.Rows)/time.Since(begin).Seconds(), "rows/s-rebuild")
	b.ReportMetric(float64(sizeOf(rebuilt))/float64(renewals), "bytes/renewal")
	var journal int64
	if err := l.read.QueryRowContext(context.Background(), `SELECT sum(length(data) + length(type) + length(operation) + length(hash) + length(prev_hash)) FROM journal`).Scan(&journal); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(journal)/float64(renewals), "journal-bytes/renewal")
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	later := time.Now().Add(30 * 24 * time.Hour)
	begin = time.Now()
	out, err := Archive{Path: path, Before: later.Add(-10 * 24 * time.Hour), Clock: func() time.Time { return later }, Published: v.Head, Keep: v.Rows / 2}.Run(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	gone := float64(out.LastSeq) / float64(v.Rows) * float64(renewals)
	b.ReportMetric(float64(v.Rows)/time.Since(begin).Seconds(), "rows/s-archive")
	b.ReportMetric(float64(sizeOf(out.File))/gone, "archive-bytes/renewal")
	b.ReportMetric((float64(sizeOf(rebuilt))-float64(out.BytesAfter))/gone, "bytes-freed/renewal")
}

// benchRenewals writes whole renewals from n on, in a busy runner's groups, and returns the
// time they took.
func benchRenewals(b *testing.B, l *Ledger, n, count int) time.Duration {
	b.Helper()
	const group = 64
	begin := time.Now()
	for i := n; i < n+count; i += group {
		for _, step := range []func(*Tx, int) error{benchAccept, benchSettle} {
			err := l.Write(context.Background(), func(tx *Tx) error {
				for k := i; k < i+group; k++ {
					if err := step(tx, k); err != nil {
						return fmt.Errorf("renewal %d: %w", k, err)
					}
				}
				return nil
			})
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	return time.Since(begin)
}
