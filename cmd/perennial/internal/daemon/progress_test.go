package daemon

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/testrun"
	"perennial/queue"
)

var _ = flag.Bool("update", false, "write the tables of progress and of metrics into docs")

// TestEveryLoopHasItsProgress: each loop of a runner is in the table, what says that it stands
// still exists, and the document prints the table.
func TestEveryLoopHasItsProgress(t *testing.T) {
	t.Parallel()
	var loops []string
	var rows strings.Builder
	for _, p := range Loops() {
		if loops = append(loops, p.Loop); !slices.Contains(checkNames, p.Check) || p.Check == "" && p.Else == "" {
			t.Errorf("%s: nothing says that it stands still, or the check %q, which is none", p.Loop, p.Check)
		}
		says := p.Else
		if p.Check != "" {
			says = "`" + p.Check + "`"
		}
		fmt.Fprintf(&rows, "| %s | %s | %s | %s | `%s` |\n", p.Loop, p.Is, says, p.After, p.Test)
	}
	if loops = slices.Compact(loops); !slices.Equal(loops, []string{"intake", "send", "poll", "list", "sweep", "outbox", "follow", "reconcile", "webhook"}) {
		t.Errorf("the loops are %v", loops)
	}
	testrun.Table(t, "docs/state-machine.md", "| loop | progress is | check of `/readyz`, or else | said after | stands still in |\n|---|---|---|---|---|\n", rows.String())
}

// TestAnOutboxThatStandsStillIsSaid: rows of the ledger that do not come onto the stream.
func TestAnOutboxThatStandsStillIsSaid(t *testing.T) {
	t.Parallel()
	x := newTaken(t)
	x.ledger.Store(x.other)
	x.outbox = queue.NewOutbox(x.host.Queue, x.Name, &Source{Ledger: x.other, Account: x.Name})
	look := func() string {
		x.probeEvents(t.Context())
		return x.host.probed.get(needsEvents + x.Name)
	}
	if said := look(); said != "" {
		t.Errorf("at first: %s", said)
	}
	x.publishedAt = x.publishedAt.Add(-behindAfter)
	if said := look(); !strings.Contains(said, "row 0 of 40 is on the stream") {
		t.Errorf("behind %s: %q", behindAfter, said)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- x.outbox.Run(ctx) }()
	must(t, x.outbox.Wait(t.Context(), takenRows))
	if said := look(); said != "" {
		t.Errorf("it works again: %s", said)
	}
	stop()
	<-ended
}

// TestAStreamThatAcknowledgesNothingIsSaid: rows wait for it before they are committed.
func TestAStreamThatAcknowledgesNothingIsSaid(t *testing.T) {
	t.Parallel()
	l, err := ledger.Open(t.Context(), ledger.Config{Path: filepath.Join(t.TempDir(), "main.ledger.db"), Clock: func() time.Time { return time.Now().Add(-slowAfter) }, Follows: true})
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	stalled, answer, written := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	leads, err := l.Lead(func(context.Context, []ledger.Row) error {
		close(stalled)
		<-answer
		return nil
	})
	must(t, err)
	a := &account{Name: "main", host: &Host{}, leading: &leading{leads, &queue.Outbox{}}}
	go func() {
		written <- l.Write(context.Background(), func(tx *ledger.Tx) error {
			return tx.Append(fact.LedgerOpened{AccountID: "acc", Environment: "sandbox", BaseURL: "u", Currency: "USD", OpeningCents: 100, Epoch: "e1"})
		})
	}()
	<-stalled
	if said := a.unacknowledged(); !strings.Contains(said, "has acknowledged nothing since") {
		t.Errorf("it stands still: %q", said)
	}
	close(answer)
	must(t, <-written)
	if said := a.unacknowledged(); said != "" {
		t.Errorf("it works again: %s", said)
	}
}
