package ledger

import (
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"perennial/ledger/fact"
)

// patient returns a single turn with a wait longer than any test.
func patient() *Turns {
	t := NewTurns(1)
	t.most = time.Hour
	return t
}

// turned returns a ledger that works in turn with others.
func turned(t *testing.T, c Config) *Ledger {
	t.Helper()
	c.Path, c.Clock = filepath.Join(t.TempDir(), "main.ledger.db"), ticking()
	l, err := Open(t.Context(), c)
	check(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func writeOne(l *Ledger) error {
	return l.Write(context.Background(), func(tx *Tx) error { return tx.Append(fact.RunnerStarted{}) })
}

// All waiting requests share one commit.
func TestWhatComesWhileAWriterWaitsForItsTurnIsOfItsGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const waiting = 20
		w := &writer{l: &Ledger{turns: patient(), requests: make(chan *request, 2*waiting)}}
		w.l.turns.take() // another ledger's writer works
		taken := make(chan []*request)
		go func() { taken <- w.takeTurn(make([]*request, 1, waiting)) }()
		synctest.Wait()
		for range waiting {
			w.l.requests <- &request{}
		}
		w.l.turns.give()
		if group := <-taken; len(group) != waiting || len(w.l.requests) != 1 || w.shared != waiting {
			t.Errorf("a group of %d, and %d are left: it takes what it has room for", len(group), len(w.l.requests))
		}
		w.giveTurn()
		w.giveTurn() // gives it back once, however often called
		if !w.l.turns.take() {
			t.Error("the turn was not given back")
		}
	})
}

// NATS that hangs for one account must not block the others.
func TestAWriterThatWaitsForAPublicationLeavesItsTurn(t *testing.T) {
	turns := patient()
	waiting, other := turned(t, Config{Turns: turns, Follows: true}), turned(t, Config{Turns: turns})
	s := &journalStream{hangs: make(chan struct{})}
	starts := make(chan struct{}, 1)
	s.starts = starts
	_, err := waiting.Lead(s.publish)
	check(t, err)
	done := make(chan error, 1)
	go func() { done <- writeOne(waiting) }()
	<-starts
	beside := make(chan error, 1)
	go func() { beside <- writeOne(other) }()
	select {
	case err := <-beside:
		check(t, err)
	case <-time.After(20 * time.Second):
		t.Error("another account's write waits for the publication")
	}
	close(s.hangs)
	check(t, <-done)
}

// Writes that are undone and run again give the turn back too.
func TestARefusedWriteGivesTheTurnBack(t *testing.T) {
	turns := patient()
	l := turned(t, Config{Turns: turns})
	if err := l.Write(t.Context(), func(*Tx) error { return ErrStale }); err == nil {
		t.Fatal("it was not refused")
	}
	check(t, writeOne(l))
	check(t, l.Close())
	if len(turns.taken) != 0 {
		t.Error("the turn was not given back")
	}
}

// A stuck file delays the others only for a limited time.
func TestATurnIsNotWaitedForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns(2)
		for range 2 {
			if !turns.take() {
				t.Fatal("there are two turns")
			}
		}
		began := time.Now()
		if turns.take() || time.Since(began) != turnMost {
			t.Errorf("a third one after %s", time.Since(began))
		}
		turns.give()
		if !turns.take() {
			t.Error("what was given back is not there")
		}
		if !NewTurns(0).take() {
			t.Error("there is no turn at all on a machine of one core")
		}
	})
}
