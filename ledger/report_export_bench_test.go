package ledger

import (
	"context"
	"io"
	"path/filepath"
	"testing"
	"time"

	"perennial/ledger/report"
)

// exportRows is how many double entries are exported.
const exportRows = 500_000

// BenchmarkExport writes half a million double entries in each format. What they allocate
// in all says what they hold at most.
//
//	go test ./ledger -run '^$' -bench Export -benchtime 1x
func BenchmarkExport(b *testing.B) {
	l, err := Open(b.Context(), Config{Path: filepath.Join(b.TempDir(), "bench.ledger.db"), Clock: time.Now})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	if err := l.Write(b.Context(), func(tx *Tx) error { return tx.Append(opened(1 << 40)) }); err != nil {
		b.Fatal(err)
	}
	benchRenewals(b, l, 0, exportRows)
	for name, export := range map[string]func(context.Context, io.Writer) error{
		"csv":   func(ctx context.Context, w io.Writer) error { return l.Report().ExportCSV(ctx, w, report.Period{}) },
		"jsonl": func(ctx context.Context, w io.Writer) error { return l.Report().ExportJSON(ctx, w, report.Period{}) },
		"beancount": func(ctx context.Context, w io.Writer) error {
			return l.Report().ExportBeancount(ctx, w, "bench", report.Period{}, false)
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var out counter
			for b.Loop() {
				out = 0
				if err := export(b.Context(), &out); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(out)/exportRows, "B/row")
			b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s")
		})
	}
}

type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// BenchmarkStatement makes the statement of a month with 100,000 renewals.
//
//	go test ./ledger -run '^$' -bench Statement -benchtime 1x
func BenchmarkStatement(b *testing.B) {
	l, err := Open(b.Context(), Config{Path: filepath.Join(b.TempDir(), "bench.ledger.db"), Clock: time.Now})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	if err := l.Write(b.Context(), func(tx *Tx) error { return tx.Append(opened(1 << 40)) }); err != nil {
		b.Fatal(err)
	}
	benchRenewals(b, l, 0, 100_000)
	for b.Loop() {
		if _, err := l.Report().Statement(b.Context(), "bench", report.Period{}); err != nil {
			b.Fatal(err)
		}
	}
}
