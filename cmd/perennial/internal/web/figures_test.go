package web

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

func TestAFigureIsMadeOnceForAllAndShownWhileANewerOneIsMade(t *testing.T) {
	now := atomic.Int64{}
	f := newFigures(func() time.Time { return noon.Add(time.Duration(now.Load())) })
	defer f.close()
	var times atomic.Int64
	gate := make(chan error)
	produce := func(ctx context.Context) (int64, error) {
		select {
		case err := <-gate:
			return times.Add(1), err
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	ask := func() Made[int64] { return figureOf(t.Context(), f, figureKey{"main", "one"}, time.Minute, produce) }
	if m := ask(); m.Known() || !m.Pending() || m.Since.IsZero() {
		t.Fatalf("a figure that is being made is %+v", m)
	}
	if m := ask(); !m.Pending() { // the same computation
		t.Fatalf("%+v", m)
	}
	made := f.next()
	gate <- nil
	<-made
	if m := ask(); m.Value != 1 || m.Pending() || !m.Since.IsZero() {
		t.Fatalf("a figure that was made is %+v", m)
	}
	now.Store(int64(2 * time.Minute))
	if m := ask(); m.Value != 1 || m.Since.IsZero() || !m.At.Equal(noon) {
		t.Fatalf("an old figure is %+v", m)
	}
	made = f.next()
	gate <- errors.New("the disk is away")
	<-made
	if m := ask(); m.Value != 1 || m.Err != "the disk is away" || !m.At.Equal(noon) {
		t.Fatalf("behind a failure it is %+v", m)
	}
	if times.Load() != 2 {
		t.Errorf("made %d times", times.Load())
	}
}

// A person's change shows immediately: the account's figures are computed again, even if they are
// new.
func TestAChangeHasTheFiguresOfItsAccountMadeAgain(t *testing.T) {
	f := newFigures(func() time.Time { return noon })
	defer f.close()
	made := 0
	read := func() int {
		t.Helper()
		figureOf(t.Context(), f, figureKey{"main", "summary"}, time.Hour, func(context.Context) (int, error) { made++; return made, nil })
		f.work.Wait()
		m, _ := peek[int](f, figureKey{"main", "summary"})
		return m.Value
	}
	for what, want := range []int{1, 1} {
		if got := read(); got != want {
			t.Errorf("%d: made %d times", what, got)
		}
	}
	if f.expire("other"); read() != 1 {
		t.Error("another account's change has it made again")
	}
	if f.expire("main"); read() != 2 {
		t.Error("a change does not have it made again")
	}
	began, end := make(chan struct{}), make(chan struct{})
	f.start(figureKey{"main", "summary"}, -1, true, func(context.Context) (any, error) {
		close(began)
		<-end
		made++
		return made, nil
	})
	<-began
	f.expire("main") // the running computation does not include the change
	close(end)
	f.work.Wait()
	if got := read(); got != 4 {
		t.Errorf("after a change during the computation: made %d times", got)
	}
}

// Figures may take minutes for a large fleet.
func TestARunnersReplyDoesNotWaitForSlowFigures(t *testing.T) {
	f := newFigures(func() time.Time { return noon })
	defer f.close()
	slow := func(ctx context.Context) (int, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	for _, name := range []string{"one", "two", "three"} { // more than the limit of parallel computations
		figureOf(t.Context(), f, figureKey{"main", name}, time.Minute, slow)
	}
	f.start(figureKey{"main", "summary"}, 0, true, func(context.Context) (any, error) { return 7, nil })
	for one := range 2 {
		made := f.next()
		if m, _ := peek[int](f, figureKey{"main", "summary"}); m.Value == 7 {
			return
		} else if one == 0 {
			<-made
		}
	}
	t.Error("the reply waits for the figures")
}
