package queue

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

// TestAWebhooksPositionIsComparedAndSet: a writer that has not read it is refused.
func TestAWebhooksPositionIsComparedAndSet(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	none, revision, err := PositionsOf(q.JetStream(), "main").Read(within(t), "billing")
	check(t, err)
	if none.Seq != 0 || revision != 0 {
		t.Errorf("before its bucket is there: %+v, %d", none, revision)
	}
	check(t, PositionsOf(q.JetStream(), "main").Ensure(within(t), 1))
	check(t, PositionsOf(q.JetStream(), "main").Ensure(within(t), 1))
	p := WebhookPosition{EventMark: EventMark{Seq: 7, Hash: "h7"}, Read: EventMark{Seq: 9, Hash: "h9"}, Undelivered: []uint64{8}}
	first, err := PositionsOf(q.JetStream(), "main").Write(within(t), "billing", p, 0)
	check(t, err)
	for _, stale := range []uint64{0, first + 1} {
		if _, err := PositionsOf(q.JetStream(), "main").Write(within(t), "billing", WebhookPosition{}, stale); !errors.Is(err, ErrWebhookMoved) {
			t.Errorf("revision %d: %v", stale, err)
		}
	}
	read, revision, err := PositionsOf(q.JetStream(), "main").Read(within(t), "billing")
	check(t, err)
	if fmt.Sprint(read) != fmt.Sprint(p) || revision != first || read.Behind(12) != 4 || read.Behind(3) != 1 {
		t.Errorf("%+v, %d, %d behind", read, revision, read.Behind(12))
	}
	_, err = PositionsOf(q.JetStream(), "main").Write(within(t), "billing", WebhookPosition{EventMark: EventMark{Seq: 10}}, first)
	check(t, err)
	check(t, PositionsOf(q.JetStream(), "main").Remove(within(t), "billing"))
	check(t, PositionsOf(q.JetStream(), "other").Remove(within(t), "billing")) // it has no bucket
	if all, err := PositionsOf(q.JetStream(), "main").All(within(t)); err != nil || len(all) != 0 {
		t.Errorf("%v %v", all, err)
	}
	_, err = PositionsOf(q.JetStream(), "main").Write(within(t), "billing", p, 0) // it is configured again
	check(t, err)
}

// TestEachWrittenPositionIsSeen by a watcher: those that are there, and those that come.
func TestEachWrittenPositionIsSeen(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	check(t, PositionsOf(q.JetStream(), "main").Ensure(within(t), 1))
	_, err := PositionsOf(q.JetStream(), "main").Write(within(t), "old", WebhookPosition{}, 0)
	check(t, err)
	ctx, cancel := context.WithCancel(within(t))
	seen, done := make(chan string, 9), make(chan error)
	go func() {
		done <- PositionsOf(q.JetStream(), "main").Watch(ctx, func(name string, revision uint64) { seen <- fmt.Sprint(name, revision) })
	}()
	if got := receive(t, seen); got != "old1" {
		t.Errorf("%s", got)
	}
	_, err = PositionsOf(q.JetStream(), "main").Write(within(t), "new", WebhookPosition{}, 0)
	check(t, err)
	if got := receive(t, seen); got != "new2" {
		t.Errorf("%s", got)
	}
	cancel()
	if err := receive(t, done); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
