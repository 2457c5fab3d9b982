package ledger

import (
	"context"
	"database/sql"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/ledger/testrun"
)

func TestMain(m *testing.M) {
	checks := "5"
	if testrun.Check {
		checks = "40"
	}
	_ = flag.Set("rapid.checks", checks) // a default: the command line may ask for more
	flag.Parse()
	if text := os.Getenv(crashEnv); text != "" {
		archiveAndCrash(text)
	}
	if part := os.Getenv(roleEnv); parts[part] != nil {
		playPart(part)
	}
	testrun.Main(m)
}

// noon is the starting time of every test.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// ticking returns a clock that advances by a second at each read.
func ticking() func() time.Time {
	var n atomic.Int64
	return func() time.Time { return noon.Add(time.Duration(n.Add(1)) * time.Second) }
}

// book is a ledger under test.
type book struct {
	*Ledger
	t    testing.TB
	path string
}

func newBook(t testing.TB) *book {
	t.Helper()
	return openBook(t, filepath.Join(t.TempDir(), "main.ledger.db"))
}

func openBook(t testing.TB, path string) *book {
	t.Helper()
	l, err := Open(context.Background(), Config{Path: path, Clock: ticking()})
	check(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return &book{Ledger: l, t: t, path: path}
}

// add appends facts, each in a transaction of its own.
func (b *book) add(facts ...fact.Fact) {
	b.t.Helper()
	for _, f := range facts {
		if err := b.tryAdd(f); err != nil {
			b.t.Fatalf("%s %s: %v", f.FactType(), f.Subject(), err)
		}
	}
}

// tryAdd appends only these facts, without command.finished.
func (b *book) tryAdd(facts ...fact.Fact) error {
	return b.Write(context.Background(), func(tx *Tx) error {
		tx.finishing = false
		return tx.Append(facts...)
	})
}

func (b *book) operation(id string) fact.Operation {
	b.t.Helper()
	o, err := b.Operations.Operation(context.Background(), id)
	if err != nil {
		b.t.Fatalf("operation %s: %v", id, err)
	}
	return o
}

func (b *book) balance() tables.Balance {
	b.t.Helper()
	got, err := b.Money.Balance(context.Background(), "main")
	check(b.t, err)
	return got
}

// raw opens the file like any SQLite tool, without the ledger's pragmas.
func raw(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+path+"?_busy_timeout=10000")
	check(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// fileName must work in a file: URI.
const fileName = "a path with ?, # and % in it.ledger.db"

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func ref(operation string) fact.Ref {
	command, _, _ := strings.Cut(operation, "/")
	return fact.Ref{CommandID: command, OperationID: operation, Labels: map[string]string{"ticket": "OPS-7"}, TraceID: "tr_1"}
}

func accepted(kind fact.Kind, operation string, ids ...string) fact.CommandAccepted {
	r := ref(operation)
	r.OperationID = ""
	return fact.CommandAccepted{
		Ref: r, Kind: kind, ContentHash: "hash of " + operation, Content: []byte(`{}`), DurationDays: 30,
		Operations: []fact.Planned{planned(operation, 1, ids...)},
	}
}

func planned(operation string, generation int64, ids ...string) fact.Planned {
	_, chunk, _ := strings.Cut(operation, "/")
	chunk, _, _ = strings.Cut(chunk, "~")
	return fact.Planned{OperationID: operation, Chunk: chunk, Generation: generation, Key: "key of " + operation, ProxyIDs: ids}
}

func sending(operation string, attempt int64) fact.OperationSending {
	return fact.OperationSending{Ref: ref(operation), Attempt: attempt, Key: "key of " + operation, Body: `{"of":"` + operation + `"}`, SentAt: noon, AppID: "sbx_app_demo"}
}

func orderState(operation, status string, charged, refunded int64) fact.OrderState {
	return fact.OrderState{Ref: ref(operation), OrderNo: "no of " + operation, Status: status, ExpectedCount: 2, DeliveredCount: 1, ChargedCents: charged, RefundedCents: refunded}
}

func line(id, state string, charged, refunded int64) fact.Line {
	return fact.Line{ProxyID: id, State: fact.LineState(state), ChargedCents: charged, RefundedCents: refunded}
}

func lines(items ...fact.Line) fact.Lines {
	out := fact.Lines{Items: items}
	for _, l := range items {
		out.ChargedCents, out.RefundedCents = out.ChargedCents+l.ChargedCents, out.RefundedCents+l.RefundedCents
	}
	return out
}

func settled(operation, status string, items ...fact.Line) fact.RenewalSettled {
	return fact.RenewalSettled{Ref: ref(operation), Status: status, Attempt: 1, Lines: lines(items...)}
}

func resolved(operation, proxy, outcome string, cents int64, again ...fact.Planned) fact.OperationResolved {
	return fact.OperationResolved{Ref: ref(operation), By: "ada", Reason: "the provider said so", Outcome: outcome, ProxyID: proxy, ChargedCents: cents, SendAgain: again, DurationDays: 30}
}

func opened(cents int64) fact.LedgerOpened {
	return fact.LedgerOpened{AccountID: "acc_1", Environment: "sandbox", BaseURL: "http://127.0.0.1:1", Currency: "USD", OpeningCents: cents, Epoch: "e1"}
}

func at(d time.Duration) *time.Time {
	instant := noon.Add(d)
	return &instant
}
