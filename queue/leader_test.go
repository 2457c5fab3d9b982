// Reads from the events stream's leader.

package queue

import (
	"context"
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
)

func TestTheLeadersRowsAreReadAsTheyWerePublished(t *testing.T) {
	q := newQueue(t)
	if last, found, err := EventsOf(q.JetStream(), "main").LastRow(within(t)); found || err != nil {
		t.Error(last, err)
	}
	fill(t, q, 1, 3, plain)
	last, found, err := EventsOf(q.JetStream(), "main").LastRow(within(t))
	check(t, err)
	if !found || last.Seq != 3 || last.StreamSeq != 3 || last.Hash != "a-3" || last.Type != "order.delivered" || string(last.Data) != plain(3) {
		t.Errorf("%+v", last)
	}
	if row, found, err := EventsOf(q.JetStream(), "main").RowAt(within(t), 2); err != nil || !found || row.Seq != 2 || row.StreamSeq != 2 || row.Hash != "a-2" {
		t.Errorf("%+v %v", row, err)
	}
	for _, seq := range []uint64{0, 4} {
		if row, found, err := EventsOf(q.JetStream(), "main").RowAt(within(t), seq); found || err != nil {
			t.Errorf("%+v %v", row, err)
		}
	}
	if _, _, err := EventsOf(q.JetStream(), "other").LastRow(within(t)); !errors.Is(err, ErrNoAccount) {
		t.Error(err)
	}
	_, err = q.JetStream().Store(within(t), &nats.Msg{Subject: EventSubject("main", "order.delivered")})
	check(t, err)
	if last, found, err := EventsOf(q.JetStream(), "main").LastRow(within(t)); err != nil || !found || last.Seq != 0 || last.StreamSeq != 4 {
		t.Errorf("%+v %v", last, err)
	}
}

func TestAReadOfTheLeaderEndsWithItsContext(t *testing.T) {
	q := newQueue(t)
	ctx, cancel := context.WithCancel(within(t))
	cancel()
	if _, _, err := EventsOf(q.JetStream(), "main").LastRow(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
