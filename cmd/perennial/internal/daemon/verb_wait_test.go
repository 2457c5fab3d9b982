package daemon

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/ledger"
	"perennial/ledger/fact"
)

// waitingAccount returns an account with a ledger that nothing works on.
func waitingAccount(t *testing.T) *account {
	t.Helper()
	l, err := ledger.Open(t.Context(), ledger.Config{Path: filepath.Join(t.TempDir(), "main.ledger.db"), Clock: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	a := &account{Name: "main"}
	a.ledger.Store(l)
	a.append(t, fact.LedgerOpened{AccountID: "acc", Environment: "sandbox", BaseURL: "http://127.0.0.1:1", Currency: "USD", Epoch: "e"})
	return a
}

func (a *account) append(t *testing.T, facts ...fact.Fact) {
	t.Helper()
	if err := a.Ledger().Write(context.WithoutCancel(t.Context()), func(tx *ledger.Tx) error { return tx.Append(facts...) }); err != nil {
		t.Error(err)
	}
}

func acceptedAs(id string) fact.CommandAccepted {
	return fact.CommandAccepted{Ref: fact.Ref{CommandID: id}, Kind: fact.KindOrder, ContentHash: "h", Content: []byte(`{}`), DurationDays: 30,
		Operations: []fact.Planned{{OperationID: id + "/1", Chunk: "1", Generation: 1, Key: "key of " + id}}}
}

func endOf(id string) fact.CommandCancelled {
	return fact.CommandCancelled{Ref: fact.Ref{CommandID: id, OperationID: id + "/1"}, By: "ada", Reason: "x"}
}

// A command that arrives during a wait and does not end in time counts as known. Otherwise the
// producer would send it again under another ID.
func TestACommandThatArrivesDuringAWaitIsFound(t *testing.T) {
	a := waitingAccount(t)
	if _, err := (answers{a}).wait(t.Context(), verbs.WaitRequest{ID: "late"}); !errors.Is(err, ledger.ErrNotFound) {
		t.Fatalf("it has not come: %v", err)
	}
	arrive := time.AfterFunc(100*time.Millisecond, func() { a.append(t, acceptedAs("late")) })
	defer arrive.Stop()
	if answer, err := (answers{a}).wait(t.Context(), verbs.WaitRequest{ID: "late", TimeoutSeconds: 2}); err != nil || answer.Finished {
		t.Errorf("%+v %v", answer, err)
	}
}

// Many clients wait for the same command and for others. Each gets the end of its own command.
func TestEveryWaiterHearsItsEnd(t *testing.T) {
	a := waitingAccount(t)
	const commands, waiters = 20, 10
	ids := make([]string, commands)
	var all sync.WaitGroup
	for i := range ids {
		ids[i] = "c" + string(rune('a'+i))
		a.append(t, acceptedAs(ids[i]))
		for range waiters {
			all.Go(func() {
				answer, err := (answers{a}).wait(context.WithoutCancel(t.Context()), verbs.WaitRequest{ID: ids[i], TimeoutSeconds: 120})
				if err != nil || !answer.Finished || answer.Result.CommandID != ids[i] || answer.Result.State != "rejected" {
					t.Errorf("%s: %+v %v", ids[i], answer, err)
				}
			})
		}
	}
	for _, id := range ids {
		a.append(t, endOf(id))
	}
	all.Wait()
	for _, q := range []verbs.WaitRequest{{}, {ID: "ca", TimeoutSeconds: -1}, {ID: "ca", TimeoutSeconds: 3601}} {
		if _, err := (answers{a}).wait(t.Context(), q); err == nil {
			t.Errorf("%+v was taken", q)
		}
	}
}

func TestAQuestionForAnEndWritesNothing(t *testing.T) {
	a := waitingAccount(t)
	a.append(t, acceptedAs("old"), endOf("old"))
	first, err := (answers{a}).wait(t.Context(), verbs.WaitRequest{ID: "old"})
	if err != nil || !first.Finished || first.Result.Revision != 1 {
		t.Fatalf("%+v %v", first, err)
	}
	head, _, err := a.Ledger().Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (answers{a}).wait(t.Context(), verbs.WaitRequest{ID: "old"}); err != nil {
		t.Error(err)
	}
	if again, _, err := a.Ledger().Head(t.Context()); err != nil || again != head {
		t.Errorf("a question wrote %d rows %v", again-head, err)
	}
}
