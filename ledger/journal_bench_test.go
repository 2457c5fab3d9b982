package ledger

import (
	"context"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"perennial/ledger/fact"
)

// BenchmarkRenewal appends the facts of whole renewals of one proxy, in a busy runner's
// groups: accepted and sending in one commit, settled in another.
func BenchmarkRenewal(b *testing.B) {
	l, err := Open(context.Background(), Config{Path: filepath.Join(b.TempDir(), "bench.ledger.db"), Clock: time.Now})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	ctx := context.Background()
	const group = 32
	for n := 0; b.Loop(); n += group {
		err := l.Write(ctx, func(tx *Tx) error {
			for i := n; i < n+group; i++ {
				if err := benchAccept(tx, i); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
		done := make(chan error, group)
		for i := n; i < n+group; i++ {
			go func() { done <- l.Write(ctx, func(tx *Tx) error { return benchSettle(tx, i) }) }()
		}
		for range group {
			if err := <-done; err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/group/1000, "us/command")
}

func benchIDs(i int) (command, operation, proxy string) {
	command = fmt.Sprintf("bench-%d", i)
	return command, command + "/0001", fmt.Sprintf("px_%d", i)
}

// benchKey is as random as a real key, so that the cost of an index shows.
func benchKey(operation string) string {
	return fmt.Sprintf("perennial-%x", sha256.Sum256([]byte(operation)))[:50]
}

func benchAccept(tx *Tx, i int) error {
	command, operation, proxy := benchIDs(i)
	if known, err := tx.Known(command); err != nil || known.AcceptedHash != "" {
		return fmt.Errorf("%s is there already, or %w", command, err)
	}
	if _, err := tx.Claimant(proxy); err != nil {
		return err
	}
	return tx.Append(
		fact.CommandAccepted{
			Ref: fact.Ref{CommandID: command}, Kind: fact.KindRenewal, ContentHash: command, Content: []byte(`{}`), DurationDays: 30,
			Operations: []fact.Planned{{OperationID: operation, Chunk: "0001", Generation: 1, Key: benchKey(operation), ProxyIDs: []string{proxy}}},
		},
		fact.OperationSending{Ref: fact.Ref{CommandID: command, OperationID: operation}, Attempt: 1, Key: benchKey(operation), Body: `{"proxy_ids":["` + proxy + `"]}`, SentAt: tx.Now()})
}

func benchSettle(tx *Tx, i int) error {
	command, operation, proxy := benchIDs(i)
	_, err := tx.AppendTo(operation, 2, fact.RenewalSettled{
		Ref: fact.Ref{CommandID: command, OperationID: operation}, Status: "completed", Attempt: 1,
		Lines: fact.Lines{ChargedCents: 300, Items: []fact.Line{{ProxyID: proxy, State: "succeeded", ChargedCents: 300}}},
	})
	return err
}
