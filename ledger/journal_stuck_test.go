package ledger

import (
	"context"
	"runtime"
	"testing"
)

// A write that does not end is visible.
func TestWorkingSinceIsTheCommitUnderWay(t *testing.T) {
	b := newBook(t)
	begun, end, done := make(chan struct{}), make(chan struct{}), make(chan error)
	if at := b.WorkingSince(); !at.IsZero() {
		t.Errorf("an idle writer works since %s", at)
	}
	go func() {
		done <- b.Write(context.Background(), func(*Tx) error {
			close(begun)
			<-end
			return nil
		})
	}()
	<-begun
	if b.WorkingSince().IsZero() {
		t.Error("a write in progress does not show")
	}
	close(end)
	check(t, <-done)
	for !b.WorkingSince().IsZero() { // the writer checks its log after the answer
		runtime.Gosched()
	}
}

// A writer that waits for NATS is not stuck.
func TestAPublicationIsNotTheWritersWork(t *testing.T) {
	begun := make(chan struct{}, 1)
	s := &journalStream{hangs: make(chan struct{}), starts: begun}
	b, _ := leader(t, s)
	done := make(chan error)
	go func() {
		done <- b.Write(context.Background(), func(tx *Tx) error { return tx.Append(opened(100)) })
	}()
	<-begun
	if at := b.WorkingSince(); !at.IsZero() {
		t.Errorf("it works since %s", at)
	}
	close(s.hangs)
	check(t, <-done)
}
