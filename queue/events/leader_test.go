// Reads from the events stream's leader.

package events

import (
	"context"
	"errors"
	"testing"

	"github.com/nats-io/nats.go"

	"perennial/queue"
	"perennial/queue/natstest"
)

func TestTheLeadersRowsAreReadAsTheyWerePublished(t *testing.T) {
	js := newMain(t)
	if last, found, err := Of(js, "main").LastRow(natstest.Within(t)); found || err != nil {
		t.Error(last, err)
	}
	fill(t, js, 1, 3, plain)
	last, found, err := Of(js, "main").LastRow(natstest.Within(t))
	natstest.Check(t, err)
	if !found || last.Seq != 3 || last.StreamSeq != 3 || last.Hash != "a-3" || last.Type != "order.delivered" || string(last.Data) != plain(3) {
		t.Errorf("%+v", last)
	}
	if row, found, err := Of(js, "main").RowAt(natstest.Within(t), 2); err != nil || !found || row.Seq != 2 || row.StreamSeq != 2 || row.Hash != "a-2" {
		t.Errorf("%+v %v", row, err)
	}
	for _, seq := range []uint64{0, 4} {
		if row, found, err := Of(js, "main").RowAt(natstest.Within(t), seq); found || err != nil {
			t.Errorf("%+v %v", row, err)
		}
	}
	if _, _, err := Of(js, "other").LastRow(natstest.Within(t)); !errors.Is(err, queue.ErrNoAccount) {
		t.Error(err)
	}
	_, err = js.Store(natstest.Within(t), &nats.Msg{Subject: queue.EventSubject("main", "order.delivered")})
	natstest.Check(t, err)
	if last, found, err := Of(js, "main").LastRow(natstest.Within(t)); err != nil || !found || last.Seq != 0 || last.StreamSeq != 4 {
		t.Errorf("%+v %v", last, err)
	}
}

func TestAReadOfTheLeaderEndsWithItsContext(t *testing.T) {
	js := newMain(t)
	ctx, cancel := context.WithCancel(natstest.Within(t))
	cancel()
	if _, _, err := Of(js, "main").LastRow(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
