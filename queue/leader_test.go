// Reads from the events stream's leader.

package queue

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

func TestTheLeadersRowsAreReadAsTheyWerePublished(t *testing.T) {
	q := newExternal(t)
	if last, found, err := EventsOf(q.JetStream(), "main").LastRow(within(t)); found || err != nil {
		t.Error(last, err)
	}
	j := newJournal("a", 3)
	check(t, publishesFirst(q).Publish(within(t), j.rows))
	last, found, err := EventsOf(q.JetStream(), "main").LastRow(within(t))
	check(t, err)
	if !found || last.Seq != 3 || last.StreamSeq != 3 || last.Hash != "a-3" || last.Type != "order.delivered" || string(last.Data) != string(j.rows[2].Payload) {
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

// A replica answers direct reads, and may be behind: nothing that decides asks for one.
func TestNoReplicaIsAskedForRowsThatDecide(t *testing.T) {
	q := newExternal(t)
	direct, err := q.nc.SubscribeSync("$JS.API.DIRECT.>")
	check(t, err)
	asked, err := q.nc.SubscribeSync("$JS.API.STREAM.MSG.GET." + EventsStream("main"))
	check(t, err)
	j := newJournal("a", 3)
	p := publishesFirst(q)
	check(t, p.Publish(within(t), j.rows))
	check(t, p.Publish(within(t), j.rows)) // compared
	_, _, err = EventsOf(q.JetStream(), "main").LastRow(within(t))
	check(t, err)
	check(t, q.nc.Flush())
	if n, _, err := direct.Pending(); n != 0 || err != nil {
		t.Errorf("%d direct reads: %v", n, err)
	}
	if n, _, err := asked.Pending(); n != 4 || err != nil {
		t.Errorf("the leader was asked %d times: %v", n, err)
	}
}

func TestAReadOfTheLeaderEndsWithItsContext(t *testing.T) {
	q := newExternal(t)
	ctx, cancel := context.WithCancel(within(t))
	cancel()
	if _, _, err := EventsOf(q.JetStream(), "main").LastRow(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A follower whose server or consumer is gone without a word notices it within seconds.
func TestFollowersAskForAHeartbeatEachSecond(t *testing.T) {
	q := newExternal(t)
	pulls, err := q.nc.SubscribeSync("$JS.API.CONSUMER.MSG.NEXT." + EventsStream("main") + ".>")
	check(t, err)
	j := newJournal("a", 3)
	check(t, publishesFirst(q).Publish(within(t), j.rows))
	for _, err := range EventsOf(q.JetStream(), "main").Follow(within(t), WatchFrom{}) {
		check(t, err)
		break
	}
	_, err = NewOutbox(q.JetStream(), "main", j).findPlace(within(t))
	check(t, err)
	for range 2 {
		m, err := pulls.NextMsgWithContext(within(t))
		check(t, err)
		var pull struct {
			Heartbeat time.Duration `json:"idle_heartbeat"`
		}
		check(t, json.Unmarshal(m.Data, &pull))
		if pull.Heartbeat != time.Second {
			t.Errorf("%s", m.Data)
		}
	}
}
