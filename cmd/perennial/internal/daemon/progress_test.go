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

	"perennial/cmd/perennial/internal/journal"
	"perennial/ledger"
	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/testrun"
	"perennial/queue/outbox"
)

var _ = flag.Bool("update", false, "write the tables of progress and of metrics")

// progress describes one way in which a loop can make no progress.
type progress struct {
	Loop  string
	Is    string // what counts as progress
	Check string // the check of /readyz that reports missing progress; "" for none
	Else  string // what reports it if no check does
	After string // after how long without progress
	Test  string // the test that stops the loop and lets it continue
}

// loops returns all rows in the order of testdata/faults/README.md.
func loops() []progress {
	within := func(d time.Duration) string { return fmt.Sprintf("%.0f s", d.Seconds()) }
	return []progress{
		{Loop: "intake", Is: "the consumers of the commands stream exist, are not paused, and have the required settings", Check: checkStreams, After: within(settingsEvery + probeTimeout), Test: "TestHealthShowsEveryFaultThatStopsWork"},
		{Loop: "intake", Is: "a batch that was read is in the ledger", Else: "`/livez`", After: within(stuckAfter), Test: "TestAStuckWriterIsNotAlive"},
		{Loop: "send", Is: "the provider replies to any request", Check: checkProvider, After: "60 s", Test: "TestHealthShowsEveryFaultThatStopsWork"},
		{Loop: "send", Is: "a POST of each kind has a definite outcome", Check: checkProvider, After: "60 s and three attempts, or one attempt of 60 s", Test: "TestWritesWithoutADefiniteOutcomeAreNotReady"},
		{Loop: "poll", Is: "the provider replies to a read of any order", Check: checkProvider, After: "60 s and three attempts", Test: "TestALoopThatStandsStillIsSaid"},
		{Loop: "list", Is: "a page is read of the listing for which a run waits", Check: checkSweeps, After: "30 s", Test: "TestTrap67ASlotWithoutItsListingIsSaid"},
		{Loop: "sweep", Is: "a schedule's run at its time succeeds", Check: checkSweeps, After: "immediately; 30 s if commands cannot be published", Test: "TestTrap55ASweepThatCannotBeMadeIsSaid"},
		{Loop: "outbox", Is: "with the embedded server: a row of the ledger is on the events stream", Check: checkEvents, After: within(behindAfter + probeEvery), Test: "TestAnOutboxThatStandsStillIsSaid"},
		{Loop: "outbox", Is: "with an external NATS: the events stream acknowledges rows that wait to be committed", Check: checkEvents, After: within(slowAfter), Test: "TestAStreamThatAcknowledgesNothingIsSaid"},
		{Loop: "follow", Is: "a standby's ledger gets another row, or has all rows of the stream", Check: checkAccount, After: within(standbySlow + standbyEvery), Test: "TestAStandbyThatStandsStillSaysSo"},
		{Loop: "reconcile", Is: "a comparison of the books with the provider completes", Check: checkBooks, After: "three times `reconcile_every`, and 30 min", Test: "TestALoopThatStandsStillIsSaid"},
		{Loop: "webhook", Is: "the oldest undelivered event is delivered", Else: "`perennial_webhook_oldest_seconds`, `perennial webhooks list`", After: "immediately", Test: "TestEventsThatHangLeaveRoomForACommandThatDoesNot"},
	}
}

// Each loop of a runner is in the table, its check or test exists, and the document prints the
// table.
func TestEveryLoopHasItsProgress(t *testing.T) {
	t.Parallel()
	var names []string
	var rows strings.Builder
	for _, p := range loops() {
		if names = append(names, p.Loop); !slices.Contains(checkNames, p.Check) || p.Check == "" && p.Else == "" {
			t.Errorf("%s: nothing says that it stands still, or the check %q, which is none", p.Loop, p.Check)
		}
		says := p.Else
		if p.Check != "" {
			says = "`" + p.Check + "`"
		}
		fmt.Fprintf(&rows, "| %s | %s | %s | %s | `%s` |\n", p.Loop, p.Is, says, p.After, p.Test)
	}
	if names = slices.Compact(names); !slices.Equal(names, []string{"intake", "send", "poll", "list", "sweep", "outbox", "follow", "reconcile", "webhook"}) {
		t.Errorf("the loops are %v", names)
	}
	testrun.Table(t, "testdata/faults/README.md", "| loop | progress is | check of `/readyz`, or else | said after | stands still in |\n|---|---|---|---|---|\n", rows.String())
}

// Rows of the ledger do not reach the stream.
func TestAnOutboxThatStandsStillIsSaid(t *testing.T) {
	t.Parallel()
	x := newTaken(t)
	x.ledger.Store(x.other)
	x.outbox = outbox.New(x.host.Queue.JetStream(), x.Name, &journal.Source{Ledger: x.other, Account: x.Name})
	look := func() string {
		probes{x.account}.probeEvents(t.Context())
		return x.host.probed.get(checkEvents + x.Name)
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

// Rows wait for the acknowledgement before they are committed.
func TestAStreamThatAcknowledgesNothingIsSaid(t *testing.T) {
	t.Parallel()
	l, err := ledger.Open(t.Context(), ledger.Config{Path: filepath.Join(t.TempDir(), "main.ledger.db"), Clock: func() time.Time { return time.Now().Add(-slowAfter) }, Follows: true})
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	stalled, answer, written := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	leads, err := l.Lead(func(context.Context, []chain.Row) error {
		close(stalled)
		<-answer
		return nil
	})
	must(t, err)
	a := &account{Name: "main", host: &Host{}, current: current{leading: &leading{leads, &outbox.Outbox{}}}}
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
