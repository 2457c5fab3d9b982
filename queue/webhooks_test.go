package queue

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
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

// TestUnreadEventsNamesWebhooksThatAreBehind, and none that has delivered all.
func TestUnreadEventsNamesWebhooksThatAreBehind(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	filled(t, q, 100)
	check(t, PositionsOf(q.JetStream(), "main").Ensure(within(t), 1))
	for name, seq := range map[string]uint64{"behind": 40, "at-the-end": 100, "begins": 0} {
		_, err := PositionsOf(q.JetStream(), "main").Write(within(t), name, WebhookPosition{EventMark: EventMark{Seq: seq}, Read: EventMark{Seq: 100}}, 0)
		check(t, err)
	}
	unread, err := EventsOf(q.JetStream(), "main").Unread(within(t))
	check(t, err)
	if fmt.Sprint(unread) != "[{webhook begins 1} {webhook behind 41}]" || WebhookOf(unread[1].Consumer) != "behind" || WebhookOf("behind") != "" {
		t.Errorf("%v", unread)
	}
}

// TestAnEventIsFoundByItsSequenceAndItsTime on a stream that begins behind an archive.
func TestAnEventIsFoundByItsSequenceAndItsTime(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	began := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	j := newJournal("own", 100)
	for i := range j.rows {
		j.rows[i].Payload = fmt.Appendf(nil, `{"time":%q}`, began.Add(time.Duration(i)*time.Hour).Format(time.RFC3339))
	}
	runOutboxTo(t, q, j, 100)
	check(t, EventsOf(q.JetStream(), "main").Bound(within(t), Bounding{First: 31, Alone: alone}))
	for seq, want := range map[uint64]bool{30: false, 31: true, 100: true, 101: false} {
		if e, found, err := EventsOf(q.JetStream(), "main").At(within(t), seq); err != nil || found != want || found && (e.Seq != seq || e.Hash == "") {
			t.Errorf("event %d: %+v %t %v", seq, e, found, err)
		}
	}
	for at, want := range map[time.Duration]uint64{0: 31, 30 * time.Hour: 31, 40 * time.Hour: 41, 40*time.Hour + 1: 42, 1000 * time.Hour: 101} {
		if got, err := EventsOf(q.JetStream(), "main").FirstSince(within(t), began.Add(at)); err != nil || got != want {
			t.Errorf("since %s: %d, want %d: %v", at, got, want, err)
		}
	}
}
