package ledger

import (
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"testing"
	"time"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
)

// folded is how many renewals the benchmarks' ledger has, with four rows each.
const folded = 50_000

// filledLedger makes a ledger with the facts of n renewals of as many proxies.
func filledLedger(b *testing.B, n int) (path string) {
	b.Helper()
	path = filepath.Join(b.TempDir(), "bench.ledger.db")
	now := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	l, err := Open(b.Context(), Config{Path: path, Clock: func() time.Time { now = now.Add(time.Millisecond); return now }})
	check(b, err)
	check(b, l.Write(b.Context(), func(tx *Tx) error {
		return tx.Append(fact.LedgerOpened{AccountID: "acc_bench", Environment: "sandbox", BaseURL: "http://127.0.0.1:1", Currency: "USD", Epoch: "1", OpeningCents: 1 << 40})
	}))
	const group = 1000
	for from := 0; from < n; from += group {
		for _, one := range []func(*Tx, int) error{benchAcceptWhole, benchSettleWhole} {
			check(b, l.Write(b.Context(), func(tx *Tx) error {
				for i := from; i < min(from+group, n); i++ {
					if err := one(tx, i); err != nil {
						return err
					}
				}
				return nil
			}))
		}
	}
	check(b, l.Close())
	return path
}

// benchAcceptWhole appends what intake and sending record of a renewal, with all fields of
// a runner's facts.
func benchAcceptWhole(tx *Tx, i int) error {
	command, operation, proxy := benchIDs(i)
	labels := map[string]string{"team": fmt.Sprintf("team-%d", i%10)}
	content := fmt.Appendf(nil, `{"id":%q,"proxy_ids":[%q],"duration_days":30,"labels":{"team":"team-%d"}}`, command, proxy, i%10)
	return tx.Append(
		fact.CommandAccepted{
			Ref: fact.Ref{CommandID: command, Labels: labels}, Kind: fact.KindRenewal, ContentHash: benchKey(command), Content: content, DurationDays: 30,
			StreamSequence: uint64(i + 1),
			Operations:     []fact.Planned{{OperationID: operation, Chunk: "0001", Generation: 1, Key: benchKey(operation), ProxyIDs: []string{proxy}}},
		},
		fact.OperationSending{
			Ref: fact.Ref{CommandID: command, OperationID: operation, Labels: labels}, Attempt: 1, Key: benchKey(operation), AppID: "app_0123456789abcdef",
			Body: `{"proxy_ids":["` + proxy + `"],"duration_days":30}`, SentAt: tx.Now(), Observed: map[string]time.Time{proxy: tx.Now().Add(24 * time.Hour)}, EstimateCents: 300,
		})
}

func benchSettleWhole(tx *Tx, i int) error {
	command, operation, proxy := benchIDs(i)
	_, err := tx.AppendTo(operation, 2, fact.RenewalSettled{
		Ref:    fact.Ref{CommandID: command, OperationID: operation, Labels: map[string]string{"team": fmt.Sprintf("team-%d", i%10)}, TraceID: "trc_0123456789abcdef0123"},
		Status: "completed", Attempt: 1, Code: "ok",
		Lines: fact.Lines{ChargedCents: 300, Items: []fact.Line{{ProxyID: proxy, State: "succeeded", ChargedCents: 300}}},
	})
	return err
}

// rowsPerSecond reports the speed of b.N runs over a journal.
func rowsPerSecond(b *testing.B, rows int64) {
	b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

// BenchmarkFold measures what operators wait for: a verification, a rebuild, a restore from
// a backup or from events, and an archiving, each over the same journal.
func BenchmarkFold(b *testing.B) {
	path := filledLedger(b, folded)
	ctx, clock := context.Background(), func() time.Time { return time.Date(2027, 6, 1, 0, 0, 0, 0, time.UTC) }
	open := func(path string) *Ledger {
		l, err := Open(ctx, Config{Path: path, Clock: clock, ReadOnly: true})
		check(b, err)
		b.Cleanup(func() { _ = l.Close() })
		return l
	}
	l := open(path)
	head, _, err := l.Head(ctx)
	check(b, err)
	b.Run("verify", func(b *testing.B) {
		for b.Loop() {
			v, err := l.Verify(ctx)
			check(b, err)
			if v.Rows != head {
				b.Fatal(v)
			}
		}
		rowsPerSecond(b, head)
	})
	b.Run("rebuild", func(b *testing.B) {
		for n := 0; b.Loop(); n++ {
			_, err := l.Rebuild(ctx, filepath.Join(b.TempDir(), fmt.Sprintf("rebuilt-%d.db", n)))
			check(b, err)
		}
		rowsPerSecond(b, head)
	})
	b.Run("restore-backup", func(b *testing.B) {
		benchRestore(b, Restore{From: path, Clock: clock, AppID: "app"})
		rowsPerSecond(b, head)
	})
	b.Run("restore-events", func(b *testing.B) {
		benchRestore(b, Restore{Events: eventsOfFile(b, l, head), Clock: clock, AppID: "app"})
		rowsPerSecond(b, head)
	})
	b.Run("archive", func(b *testing.B) {
		row, err := l.Row(ctx, head)
		check(b, err)
		text, err := os.ReadFile(path)
		check(b, err)
		for b.Loop() {
			b.StopTimer()
			dir := b.TempDir()
			copied := filepath.Join(dir, "bench.ledger.db")
			check(b, os.WriteFile(copied, text, 0o600))
			b.StartTimer()
			out, err := Archive{Path: copied, Before: clock().AddDate(0, -2, 0), Clock: clock, Published: chain.Head{Seq: head, Hash: row.Hash}}.Run(ctx)
			check(b, err)
			if out.LastSeq < head-5000 {
				b.Fatalf("%+v", out)
			}
		}
		rowsPerSecond(b, head)
	})
}

func benchRestore(b *testing.B, x Restore) {
	for b.Loop() {
		x.Path = filepath.Join(b.TempDir(), "restored.db")
		_, err := x.Run(context.Background())
		check(b, err)
		check(b, os.Remove(x.Path))
	}
}

// eventsOfFile returns a ledger's events as a stream would hold them.
func eventsOfFile(b *testing.B, l *Ledger, head int64) func(first int64) iter.Seq2[[]byte, error] {
	b.Helper()
	var events [][]byte
	rows, err := l.Rows(b.Context(), 0, int(head))
	check(b, err)
	for _, r := range rows {
		event, err := r.Event("bench")
		check(b, err)
		events = append(events, event)
	}
	return func(first int64) iter.Seq2[[]byte, error] {
		return func(yield func([]byte, error) bool) {
			for _, e := range events[first-1:] {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}
