package journal

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"perennial/ledger"
	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/queue"
	"perennial/queue/embedded"
	"perennial/queue/events"
	"perennial/queue/outbox"
	"perennial/queue/streams"
)

// written is how many rows the other runner has written.
const written = 40

// pair is an account's stream, the ledger that wrote it, and an empty ledger.
type pair struct {
	queue       *queue.Queue
	this, other Journal
}

func newPair(t *testing.T) pair {
	t.Helper()
	dir := t.TempDir()
	server, err := embedded.Start(embedded.Config{Listen: "127.0.0.1:0", StoreDir: filepath.Join(dir, "nats")})
	check(t, err)
	t.Cleanup(server.Shutdown)
	q, err := queue.Connect(queue.ConnectConfig{URL: server.URL()})
	check(t, err)
	t.Cleanup(q.Close)
	check(t, streams.Wanted{Account: "main", Replicas: 1}.Ensure(t.Context(), q.JetStream()))
	of := func(name string) Journal {
		l, err := ledger.Open(t.Context(), ledger.Config{Path: filepath.Join(dir, name), Clock: time.Now, Follows: true})
		check(t, err)
		t.Cleanup(func() { _ = l.Close() })
		return Journal{"main", q, l}
	}
	p := pair{q, of("this.ledger.db"), of("other.ledger.db")}
	leads, err := p.other.Lead(t.Context(), p.other.Outbox())
	check(t, err)
	check(t, p.other.Ledger.Write(t.Context(), func(tx *ledger.Tx) error {
		err := tx.Append(fact.LedgerOpened{AccountID: "acc", Environment: "sandbox", BaseURL: "u", Currency: "USD", OpeningCents: 100, Epoch: "e1"})
		for n := range written - 1 {
			err = errors.Join(err, tx.Append(fact.LedgerRecorded{Movement: "top-up", AmountCents: 1, By: "ada", Reason: "card", ID: fmt.Sprint("top-up-", n)}))
		}
		return err
	}))
	leads.End()
	return p
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func head(t *testing.T, l *ledger.Ledger) (int64, string) {
	t.Helper()
	seq, hash, err := l.Head(t.Context())
	check(t, err)
	return seq, hash
}

// The next row that it writes follows them on the stream.
func TestAnEmptyLedgerFoldsTheWholeStream(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	check(t, p.this.FoldToEnd(t.Context()))
	_, theirs := head(t, p.other.Ledger)
	if seq, hash := head(t, p.this.Ledger); seq != written || hash != theirs {
		t.Fatalf("it ends with row %d, %s", seq, hash)
	}
	leads, err := p.this.Lead(t.Context(), p.this.Outbox())
	check(t, err)
	defer leads.End()
	check(t, p.this.Ledger.Write(t.Context(), func(tx *ledger.Tx) error { return tx.Append(fact.RunnerStarted{Version: "v", Holder: "this"}) }))
	if last, _, err := events.Of(p.queue.JetStream(), "main").LastRow(t.Context()); err != nil || last.Seq != written+1 {
		t.Errorf("the stream ends with row %d: %v", last.Seq, err)
	}
}

// The expected sequence keeps the rows of a lagging runner off the stream, even if the runner did
// not follow first.
func TestALedgerThatDidNotFoldMayNotWrite(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	leads, err := p.this.Lead(t.Context(), p.this.Outbox())
	check(t, err)
	defer leads.End()
	err = p.this.Ledger.Write(t.Context(), func(tx *ledger.Tx) error { return tx.Append(fact.RunnerStarted{Version: "v", Holder: "this"}) })
	if _, fenced := errors.AsType[*outbox.FencedError](err); !fenced || !ledger.Ended(err) {
		t.Errorf("%v", err)
	}
	if seq, _ := head(t, p.this.Ledger); seq != 0 {
		t.Errorf("the ledger ends with row %d", seq)
	}
}

// Rows with a gap to the ledger mean another history, unless an archive run removed the rows in the
// gap in the meantime.
func TestRowsThatWentAreNoOtherHistory(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	rows, err := p.other.Ledger.Rows(t.Context(), 20, 5)
	check(t, err)
	err = p.this.FoldRows(t.Context(), rows)
	if _, diverged := errors.AsType[*outbox.DivergedError](err); !diverged || errors.Is(err, ErrLedgerBefore) {
		t.Errorf("rows that are all there: %v", err)
	}
	check(t, events.Of(p.queue.JetStream(), "main").Bound(t.Context(), events.Bounding{First: 15, Alone: func(context.Context) error { return nil }}))
	if err := p.this.FoldRows(t.Context(), rows); !errors.Is(err, ErrLedgerBefore) {
		t.Errorf("rows that went: %v", err)
	}
	if err := p.this.Follow(t.Context(), nil); !errors.Is(err, ErrLedgerBefore) {
		t.Errorf("it follows from the middle: %v", err)
	}
}

// The ledger gets the rows before it.
func TestARowOfALaterVersionStopsTheFoldBeforeIt(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	rows, err := p.other.Ledger.Rows(t.Context(), 0, written)
	check(t, err)
	last := rows[len(rows)-1]
	later := chain.Row{Seq: last.Seq + 1, Type: "proxy.frozen", Time: time.Now().UnixMicro(), Data: `{"proxy_id":"px_1"}`, PrevHash: last.Hash}
	text := binary.BigEndian.AppendUint64(fact.AppendField(nil, later.PrevHash), uint64(later.Seq))
	text = binary.BigEndian.AppendUint64(fact.AppendField(text, later.Type), uint64(later.Time))
	later.Hash = fmt.Sprintf("%x", sha256.Sum256(fact.AppendField(fact.AppendField(text, later.Operation), later.Data)))
	if err := p.this.FoldRows(t.Context(), append(rows, later)); !IsLater(err) {
		t.Errorf("%v", err)
	}
	if seq, _ := head(t, p.this.Ledger); seq != written {
		t.Errorf("it ends with row %d", seq)
	}
}

// The other ledger has more rows than the stream.
func TestALedgerOfAnotherHistoryPublishesNothing(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	path := filepath.Join(t.TempDir(), "foreign.ledger.db")
	l, err := ledger.Open(t.Context(), ledger.Config{Path: path, Clock: time.Now})
	check(t, err)
	check(t, l.Write(t.Context(), func(tx *ledger.Tx) error {
		err := tx.Append(fact.LedgerOpened{AccountID: "foreign", Environment: "sandbox", BaseURL: "u", Currency: "USD", OpeningCents: 7, Epoch: "e2"})
		for n := range written + 5 {
			err = errors.Join(err, tx.Append(fact.LedgerRecorded{Movement: "top-up", AmountCents: 1, By: "ada", Reason: "card", ID: fmt.Sprint("other-", n)}))
		}
		return err
	}))
	check(t, l.Close())
	alone := &Alone{Path: path, Account: "main", Queue: p.queue}
	opened, err := alone.Open(t.Context())
	if _, diverged := errors.AsType[*outbox.DivergedError](err); !diverged {
		t.Errorf("%v %v", opened, err)
	}
	if err == nil {
		check(t, alone.Close())
	}
	if last, _, err := events.Of(p.queue.JetStream(), "main").LastRow(t.Context()); err != nil || last.Seq != written {
		t.Errorf("the stream ends at %d, %v", last.Seq, err)
	}
}
