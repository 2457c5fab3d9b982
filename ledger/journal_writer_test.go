package ledger

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
)

// together makes the writes share one commit: the first holds the writer until the others
// are queued.
func (b *book) together(writes ...func(*Tx) error) []error {
	entered, release := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		open := sync.OnceFunc(func() { close(entered) })
		check(b.t, b.Write(context.Background(), func(*Tx) error { open(); <-release; return nil }))
	})
	<-entered
	errs := make([]error, len(writes))
	for i, w := range writes {
		queued := make(chan struct{})
		all.Go(func() {
			close(queued)
			errs[i] = b.Write(context.Background(), w)
		})
		<-queued
	}
	close(release)
	all.Wait()
	return errs
}

func TestAFailingWriteOfAGroupIsUndoneAlone(t *testing.T) {
	b := newBook(t)
	b.add(opened(1000))
	topUp := fact.LedgerRecorded{Movement: "top-up", AmountCents: 10, By: "ada", Reason: "card"}
	boom := errors.New("boom")
	good := func(tx *Tx) error { return tx.Append(topUp) }
	errs := b.together(
		good,
		func(tx *Tx) error {
			if err := tx.Append(topUp, topUp); err != nil {
				return err
			}
			return boom
		},
		func(tx *Tx) error {
			return tx.Append(fact.LedgerRecorded{Movement: "top-up", AmountCents: 10, By: "bob", Reason: "cash"})
		},
		func(tx *Tx) error { return tx.Append(topUp, opened(5)) }, // refused by SQL: one binding
	)
	for i, want := range []bool{true, false, true, false} {
		if (errs[i] == nil) != want {
			t.Errorf("write %d: %v", i, errs[i])
		}
	}
	if !errors.Is(errs[1], boom) {
		t.Errorf("the caller got %v", errs[1])
	}
	if got := b.balance(); got.WalletCents != 1020 || got.Head.Seq != 3 {
		t.Errorf("%+v", got)
	}
	if _, err := b.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestWhatWasDecidedOnAnOldVersionIsNotWritten(t *testing.T) {
	b := newBook(t)
	b.add(opened(1000), accepted(fact.KindOrder, "o1/1"))
	version := b.operation("o1/1").Version
	try := func(f fact.Fact) error {
		return b.Write(t.Context(), func(tx *Tx) error { _, err := tx.AppendTo("o1/1", version, f); return err })
	}
	check(t, try(sending("o1/1", 1)))
	before := b.balance().Head
	// The second transition is allowed, so only the version refuses it.
	for _, f := range []fact.Fact{sending("o1/1", 1), fact.OperationReview{Ref: fact.Ref{CommandID: "o1", OperationID: "o1/1"}, Reason: "x"}} {
		if err := try(f); !errors.Is(err, ErrStale) {
			t.Fatalf("%s: %v", f.FactType(), err)
		}
	}
	if b.balance().Head != before {
		t.Fatal("a stale decision left something behind")
	}
	err := b.Write(t.Context(), func(tx *Tx) error { _, err := tx.AppendTo("unknown/1", 1, sending("unknown/1", 1)); return err })
	if !errors.Is(err, ErrNotFound) {
		t.Fatalf("an unknown operation: %v", err)
	}
}

// Facts of one Append are folded one by one, like in a rebuild: an acceptance does not read
// the fact after it.
func TestFactsTogetherLeaveWhatFactsApartLeave(t *testing.T) {
	b := newBook(t)
	first := sending("a/1", 1)
	first.Observed = map[string]time.Time{"px_1": noon}
	b.add(opened(1000), accepted(fact.KindRenewal, "a/1", "px_1"), first)
	b.add(accepted(fact.KindRenewal, "b/1", "px_2"))
	second := sending("b/1", 1)
	second.Observed = map[string]time.Time{"px_2": noon}
	b.add(second)
	together, apart := b.operation("a/1"), b.operation("b/1")
	if together.Version != 2 || apart.Version != 2 || together.BodySeq != 3 || apart.BodySeq != 5 || together.State != apart.State {
		t.Errorf("together %+v, apart %+v", together, apart)
	}
	if _, err := b.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAppendToReturnsTheOperationAsItNowIs(t *testing.T) {
	b := newBook(t)
	b.add(opened(1000), accepted(fact.KindOrder, "o1/1"))
	for _, f := range []fact.Fact{
		sending("o1/1", 1), fact.OrderAccepted{Ref: ref("o1/1"), OrderNo: "n", NextAt: noon},
		fact.LedgerDiscrepancy{Ref: ref("o1/1"), Finding: "x", Explanation: "changes no operation"},
	} {
		var got fact.Operation
		check(t, b.Write(t.Context(), func(tx *Tx) (err error) {
			got, err = tx.AppendTo("o1/1", b.operation("o1/1").Version, f)
			return err
		}))
		if want := b.operation("o1/1"); !reflect.DeepEqual(got, want) {
			t.Errorf("after %s it returned\n%+v, and the ledger holds\n%+v", f.FactType(), got, want)
		}
	}
}

func TestAFactTooLargeForItsEventIsNotWritten(t *testing.T) {
	b := newBook(t)
	b.add(opened(1000))
	before := b.balance().Head
	err := b.tryAdd(fact.LedgerDiscrepancy{Finding: "x", Explanation: strings.Repeat("x", MaxFactBytes)})
	if !errors.Is(err, ErrTooLarge) {
		t.Fatalf("got %v", err)
	}
	if b.balance().Head != before {
		t.Fatal("it is in the journal")
	}
	b.add(fact.LedgerDiscrepancy{Finding: "x", Explanation: strings.Repeat("x", MaxFactBytes-200)})
}

func TestManyWritersGetOneUnbrokenChain(t *testing.T) {
	b := newBook(t)
	b.add(opened(1_000_000))
	const writers, each = 24, 20
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				id := fmt.Sprintf("c%d-%d/1", w, i)
				err := b.tryAdd(accepted(fact.KindOrder, id), sending(id, 1))
				if err != nil {
					t.Errorf("%s: %v", id, err)
				}
			}
		})
	}
	all.Wait()
	v, err := b.Verify(t.Context())
	check(t, err)
	if want := int64(1 + 2*writers*each); v.Rows != want || v.Head != b.balance().Head {
		t.Fatalf("%d rows, want %d", v.Rows, want)
	}
	rows, err := b.Rows(t.Context(), 0, 5000) // from memory
	check(t, err)
	prev := chain.Genesis
	for i, r := range rows {
		if r.Seq != int64(i+1) || r.PrevHash != prev {
			t.Fatalf("row %d follows wrongly", r.Seq)
		}
		prev = r.Hash
	}
}

func TestWhoeverFollowsTheJournalIsToldThatItGrew(t *testing.T) {
	b := newBook(t)
	grown := b.Changed(0)
	select {
	case <-grown:
		t.Fatal("an empty journal has grown")
	default:
	}
	b.add(opened(1))
	<-grown
	<-b.Changed(0)
	select {
	case <-b.Changed(1):
		t.Fatal("nothing follows row 1 yet")
	default:
	}
}

func TestACancelledCallerIsNotWaitedFor(t *testing.T) {
	b := newBook(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := b.Write(ctx, func(tx *Tx) error { return tx.Append(opened(1)) })
	// Whether or not the writer took the request, the result and the journal agree.
	if written := b.balance().Head.Seq == 1; written != (err == nil) {
		t.Fatalf("written %t, answered %v", written, err)
	}
}
