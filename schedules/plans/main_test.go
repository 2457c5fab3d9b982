package plans

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/testrun"
)

func TestMain(m *testing.M) { testrun.Main(m) }

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// watch is a clock that a test sets.
type watch struct {
	mu  sync.Mutex
	now time.Time
}

func (w *watch) Now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *watch) add(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

func openLedger(t testing.TB, path string, clock func() time.Time) *ledger.Ledger {
	t.Helper()
	l, err := ledger.Open(t.Context(), ledger.Config{Path: path, Clock: clock})
	check(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func keepalive() Schedule {
	return Schedule{Name: "keepalive", Account: "main", Cron: "*/15 * * * *", RenewBefore: 72 * time.Hour, DurationDays: 30}
}

// renewal records the end of a renewal of one proxy in the ledger. A failed renewal costs
// nothing.
func renewal(t testing.TB, l *ledger.Ledger, n int, id, state string, cents int64, observed time.Time) {
	t.Helper()
	name := fmt.Sprintf("earlier-%s-%d", id, n)
	ref := fact.Ref{CommandID: name, OperationID: name + "/0001"}
	status, refunded := "completed", int64(0)
	if state == "failed" {
		status, refunded = "failed", cents
	}
	facts := []fact.Fact{fact.CommandAccepted{
		Ref: fact.Ref{CommandID: name}, Kind: fact.KindRenewal, Content: json.RawMessage(`{}`), DurationDays: 30,
		Operations: []fact.Planned{{OperationID: ref.OperationID, Chunk: "0001", Generation: 1, Key: "key-" + name, ProxyIDs: []string{id}}},
	}}
	if state != "claimed" {
		facts = append(facts,
			fact.OperationSending{Ref: ref, Attempt: 1, Key: "key-" + name, Body: "{}", SentAt: observed, Observed: map[string]time.Time{id: observed}},
			fact.RenewalSettled{Ref: ref, Status: status, Attempt: 1, Lines: fact.Lines{
				ChargedCents: cents, RefundedCents: refunded,
				Items: []fact.Line{{ProxyID: id, State: fact.LineState(state), ChargedCents: cents, RefundedCents: refunded}},
			}})
	}
	check(t, l.Write(t.Context(), func(tx *ledger.Tx) error { return tx.Append(facts...) }))
}

// paid records what a proxy costs, with a renewal of an older expiry.
func paid(t testing.TB, l *ledger.Ledger, id string, cents int64) {
	t.Helper()
	renewal(t, l, 0, id, "succeeded", cents, noon.Add(-30*fact.Day))
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t testing.TB, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("error %v, want %v", err, target)
	}
}

func want[T any](t testing.TB, what string, got, want T) {
	t.Helper()
	if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); g != w {
		t.Fatalf("%s:\n got %s\nwant %s", what, g, w)
	}
}
