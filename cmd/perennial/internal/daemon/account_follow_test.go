// The order of a failover: acquire the lease, follow the events to their end, lead, and only then
// work.

package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/sirupsen/logrus"

	"perennial/cmd/perennial/internal/cluster"
	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/daemon/life"
	"perennial/cmd/perennial/internal/journal"
	"perennial/ledger"
	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/queue"
	"perennial/queue/embedded"
	"perennial/queue/events"
	"perennial/queue/lease"
	"perennial/queue/outbox"
)

// taken is an account that this runner takes over with an empty ledger. Another runner has written
// its events.
type taken struct {
	*account
	t     *testing.T
	js    jetstream.JetStream
	other *ledger.Ledger // the other runner's ledger
}

func (x *taken) lifecycle() *lifecycle { return &lifecycle{account: x.account} }

// takenRows is how many rows the other runner has written.
const takenRows = 40

func newTaken(t *testing.T) *taken {
	t.Helper()
	dir := t.TempDir()
	quiet := logrus.New()
	quiet.SetOutput(io.Discard)
	server, err := embedded.Start(embedded.Config{Listen: "127.0.0.1:0", StoreDir: filepath.Join(dir, "nats")})
	must(t, err)
	t.Cleanup(server.Shutdown)
	q, err := queue.Connect(queue.ConnectConfig{URL: server.URL(), Log: quiet})
	must(t, err)
	t.Cleanup(q.Close)
	nc, err := nats.Connect(server.URL())
	must(t, err)
	t.Cleanup(nc.Close)
	x := &taken{t: t, account: &account{
		Name: "main", host: &Host{Config: &config.Config{}, Queue: q, leases: lease.New(q.JetStream(), 1), holder: "this"}, config: &config.Account{Replicas: 1}, log: quiet.WithField("account", "main"),
		started: make(chan struct{}), last: map[string]check{}, warned: map[string]bool{},
	}, other: followed(t, filepath.Join(dir, "other.ledger.db"))}
	x.ledger.Store(followed(t, filepath.Join(dir, "this.ledger.db")))
	x.js, err = jetstream.New(nc)
	must(t, err)
	must(t, x.ensureStreams(t.Context()))
	leads, err := x.journalOf(x.other).Lead(t.Context(), x.journalOf(x.other).Outbox())
	must(t, err)
	must(t, x.other.Write(t.Context(), func(tx *ledger.Tx) error {
		err := tx.Append(fact.LedgerOpened{AccountID: "acc", Environment: "sandbox", BaseURL: "u", Currency: "USD", OpeningCents: 100, Epoch: "e1"})
		for n := range takenRows - 1 {
			err = errors.Join(err, tx.Append(fact.LedgerRecorded{Movement: "top-up", AmountCents: 1, By: "ada", Reason: "card", ID: fmt.Sprint("top-up-", n)}))
		}
		return err
	}))
	leads.End()
	return x
}

// The log warns only after the account has started, or after its start has failed for now.
func TestAStartOnItsWayIsNoWarning(t *testing.T) {
	t.Parallel()
	x, said, log := newTaken(t), &strings.Builder{}, logrus.New()
	log.SetOutput(said)
	x.log = log.WithField("account", "main")
	x.setState("reading the account's events to their end")
	x.checks()
	if said.Len() > 0 {
		t.Errorf("it says %s", said)
	}
	x.hasStarted()
	x.checks()
	x.checks()
	if strings.Count(said.String(), "not ready: reading") != 1 {
		t.Errorf("it says %s", said)
	}
	x.setState("")
	x.checks()
	if strings.Count(said.String(), "works again: account") != 1 {
		t.Errorf("it says %s", said)
	}
}

func followed(t *testing.T, path string) *ledger.Ledger {
	t.Helper()
	l, err := ledger.Open(t.Context(), ledger.Config{Path: path, Clock: time.Now, Follows: true})
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// head returns the newest row of the ledger that takes over.
func (x *taken) head() int64 {
	x.t.Helper()
	head, _, err := x.Ledger().Head(x.t.Context())
	must(x.t, err)
	return head
}

// later publishes a row whose type this version does not know.
func (x *taken) later() {
	x.t.Helper()
	seq, hash, err := x.other.Head(x.t.Context())
	must(x.t, err)
	r := chain.Row{Seq: seq + 1, Type: "proxy.frozen", Time: time.Now().UnixMicro(), Data: `{"proxy_id":"px_1"}`, PrevHash: hash}
	text := binary.BigEndian.AppendUint64(fact.AppendField(nil, r.PrevHash), uint64(r.Seq))
	text = binary.BigEndian.AppendUint64(fact.AppendField(text, r.Type), uint64(r.Time))
	r.Hash = fmt.Sprintf("%x", sha256.Sum256(fact.AppendField(fact.AppendField(text, r.Operation), r.Data)))
	events, err := (&journal.Source{Account: "main"}).Render([]chain.Row{r})
	must(x.t, err)
	must(x.t, outbox.New(x.host.Queue.JetStream(), "main", nil).Publish(x.t.Context(), events))
}

// The lease alone gives the ledger no rows. After the takeover it has all of them, and the next row
// follows them.
func TestATakeOverFoldsToTheEnd(t *testing.T) {
	x := newTaken(t)
	must(t, x.lifecycle().takeOver(t.Context()))
	if head := x.head(); head != takenRows {
		t.Fatalf("the ledger ends with row %d, the stream with %d", head, takenRows)
	}
	leads, err := x.journal().Lead(t.Context(), x.journal().Outbox())
	must(t, err)
	must(t, x.Ledger().Write(t.Context(), func(tx *ledger.Tx) error { return tx.Append(fact.RunnerStarted{Version: "v", Holder: "this"}) }))
	leads.End()
}

// A runner that holds the lease but cannot follow all rows accepts no command and writes nothing.
// It returns the lease and does not take it again.
func TestNoCommandIsTakenBeforeTheEventsAreFolded(t *testing.T) {
	x := newTaken(t)
	x.later()
	taken, err := lease.New(x.host.Queue.JetStream(), 1).Acquire(t.Context(), "main", "this", cluster.LeaseTTL, lease.Turn{})
	must(t, err)
	runs := x.lifecycle()
	runs.tenure = runs.newTenure(t.Context(), taken)
	err = runs.do(t.Context(), life.TakingOver)
	next := life.After(life.TakingOver, phaseOutcome(t.Context(), life.TakingOver, err))
	if !journal.IsLater(err) || next.To != life.Following {
		t.Errorf("it is %s next: %v", next.To, err)
	}
	runs.leave(next, err)
	stream, err := x.js.Stream(t.Context(), queue.CommandsStream("main"))
	must(t, err)
	if consumers := stream.CachedInfo().State.Consumers; consumers != 0 {
		t.Errorf("%d consumers were made for commands", consumers)
	}
	if last, _, err := events.Of(x.host.Queue.JetStream(), "main").LastRow(t.Context()); err != nil || last.Seq != takenRows+1 || x.head() != takenRows {
		t.Errorf("the stream ends with %d (%v), the ledger with %d", last.Seq, err, x.head())
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	stands := make(chan error, 1)
	go func() { _, err := x.lifecycle().awaitLease(ctx); stands <- err }()
	for x.mayWait() {
		select {
		case err := <-stands:
			t.Fatalf("it asked for the lease again: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
	if holder, err := lease.Holder(t.Context(), x.host.Queue.JetStream(), "main"); err != nil || holder != "" {
		t.Errorf("%q has the lease: %v", holder, err)
	}
	if why := x.notReady(); why == "" {
		t.Error("it is ready")
	}
	stop()
	if err := <-stands; !errors.Is(err, context.Canceled) {
		t.Errorf("it stands until: %v", err)
	}
}

// mayWait reports whether the account has not reached the wait for the lease.
func (x *taken) mayWait() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.state != waitsForLease
}

// An archive run removes events that the standby has not read.
func TestAStandbyWhoseRowsWentMakesItsLedgerAgain(t *testing.T) {
	x := newTaken(t)
	must(t, events.Of(x.host.Queue.JetStream(), "main").Bound(t.Context(), events.Bounding{First: 15, Alone: func(context.Context) error { return nil }}))
	lease, err := x.lifecycle().awaitLease(t.Context())
	if next := life.After(life.Following, phaseOutcome(t.Context(), life.Following, err)); lease != nil || next.To != life.Closed {
		t.Errorf("it is %s next, with %v: %v", next.To, lease, err)
	}
}
