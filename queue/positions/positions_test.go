package positions

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"perennial/queue/natstest"
)

// A writer that has not read the position is refused.
func TestAWebhooksPositionIsComparedAndSet(t *testing.T) {
	t.Parallel()
	js := newMain(t)
	none, revision, err := Of(js, "main").Read(natstest.Within(t), "billing")
	natstest.Check(t, err)
	if none.Seq != 0 || revision != 0 {
		t.Errorf("before its bucket is there: %+v, %d", none, revision)
	}
	natstest.Check(t, Of(js, "main").Ensure(natstest.Within(t), 1))
	natstest.Check(t, Of(js, "main").Ensure(natstest.Within(t), 1))
	p := Position{Mark: Mark{Seq: 7, Hash: "h7"}, Read: Mark{Seq: 9, Hash: "h9"}, Undelivered: []uint64{8}}
	first, err := Of(js, "main").Write(natstest.Within(t), "billing", p, 0)
	natstest.Check(t, err)
	for _, stale := range []uint64{0, first + 1} {
		if _, err := Of(js, "main").Write(natstest.Within(t), "billing", Position{}, stale); !errors.Is(err, ErrMoved) {
			t.Errorf("revision %d: %v", stale, err)
		}
	}
	read, revision, err := Of(js, "main").Read(natstest.Within(t), "billing")
	natstest.Check(t, err)
	if fmt.Sprint(read) != fmt.Sprint(p) || revision != first || read.Behind(12) != 4 || read.Behind(3) != 1 {
		t.Errorf("%+v, %d, %d behind", read, revision, read.Behind(12))
	}
	_, err = Of(js, "main").Write(natstest.Within(t), "billing", Position{Mark: Mark{Seq: 10}}, first)
	natstest.Check(t, err)
	natstest.Check(t, Of(js, "main").Remove(natstest.Within(t), "billing"))
	natstest.Check(t, Of(js, "other").Remove(natstest.Within(t), "billing")) // it has no bucket
	if all, err := Of(js, "main").All(natstest.Within(t)); err != nil || len(all) != 0 {
		t.Errorf("%v %v", all, err)
	}
	_, err = Of(js, "main").Write(natstest.Within(t), "billing", p, 0) // it is configured again
	natstest.Check(t, err)
}

// A watcher gets existing and new positions.
func TestEachWrittenPositionIsSeen(t *testing.T) {
	t.Parallel()
	js := newMain(t)
	natstest.Check(t, Of(js, "main").Ensure(natstest.Within(t), 1))
	_, err := Of(js, "main").Write(natstest.Within(t), "old", Position{}, 0)
	natstest.Check(t, err)
	ctx, cancel := context.WithCancel(natstest.Within(t))
	seen, done := make(chan string, 9), make(chan error)
	go func() {
		done <- Of(js, "main").Watch(ctx, func(name string, revision uint64) { seen <- fmt.Sprint(name, revision) })
	}()
	if got := natstest.Receive(t, seen); got != "old1" {
		t.Errorf("%s", got)
	}
	_, err = Of(js, "main").Write(natstest.Within(t), "new", Position{}, 0)
	natstest.Check(t, err)
	if got := natstest.Receive(t, seen); got != "new2" {
		t.Errorf("%s", got)
	}
	cancel()
	if err := natstest.Receive(t, done); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
