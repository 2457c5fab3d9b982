package jobs

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"perennial/ledger"
	"perennial/queue"
)

// counting is the commands stream, and counts what was put back.
type counting struct {
	Commands
	putBack *atomic.Int64
}

type countedDelivery struct {
	message queue.Message
	putBack *atomic.Int64
}

func (d *countedDelivery) Ack() error {
	if d.message.StreamSequence == 0 {
		return nil
	}
	return d.message.Ack()
}

func (d *countedDelivery) Nak(delay time.Duration) error {
	d.putBack.Add(1)
	if d.message.StreamSequence == 0 {
		return nil // of no stream
	}
	return d.message.Nak(delay)
}

func (c counting) Fetch(ctx context.Context, limit int) ([]queue.Message, error) {
	messages, err := c.Commands.Fetch(ctx, limit)
	for i, m := range messages {
		messages[i] = queue.NewMessage(m, &countedDelivery{m, c.putBack})
	}
	return messages, err
}

// A backlog waits in the stream and is taken in order: what is put back comes
// again only seconds later.
func TestABacklogIsTakenInAsThereIsRoomAndNothingIsPutBack(t *testing.T) {
	h := idleHouse(t, func(c *Config) { c.Concurrency = 1 })
	const backlog = 300
	for n := range backlog {
		h.renew(fmt.Sprintf(`{"id":"r%d","duration_days":30,"proxy_ids":["px_nowhere_%d"]}`, n, n))
	}
	var putBack atomic.Int64
	h.commands = func(c Commands) Commands { return counting{c, &putBack} }
	h.start()
	h.await(fmt.Sprintf("r%d", backlog-1), ledger.StateRejected)
	if n := putBack.Load(); n != 0 {
		t.Errorf("%d of %d commands were put back", n, backlog)
	}
}

// delivered is a command of no stream.
func (d *countedDelivery) delivered(text string) *queue.Message {
	return new(queue.NewMessage(queue.Message{Kind: queue.KindProxyRenew, Data: []byte(text)}, d))
}

// What has arrived is not counted as coming any more: counted twice it would
// have others put back.
func TestRoomThatIsReservedIsNotTakenTwice(t *testing.T) {
	h := idleHouse(t)
	var putBack atomic.Int64
	room := h.runner.ready.free(laneRenewal)
	for n := range 3 {
		m := (&countedDelivery{putBack: &putBack}).delivered(fmt.Sprintf(`{"id":"r%d","duration_days":30,"proxy_ids":["px_%d"]}`, n, n+1))
		a, err := h.runner.read(t.Context(), m)
		check(t, err)
		h.runner.ready.reserve()
		check(t, h.runner.acceptBatch(t.Context(), []*arrival{a}))
		if free := h.runner.ready.free(laneRenewal); free != room-n-1 {
			t.Errorf("behind %d commands there is room for %d of %d", n+1, free, room)
		}
	}
}

// A lane that works has room soon: a command waits for it. One that is paused
// and full has none: the command is put back, and holds up nothing.
func TestACommandWaitsForRoomWhereThereIsSomeSoon(t *testing.T) {
	h := idleHouse(t)
	var putBack atomic.Int64
	d := &countedDelivery{putBack: &putBack}
	m := d.delivered(`{"id":"r1","duration_days":30,"proxy_ids":["px_1"]}`)
	for h.runner.ready.free(laneRenewal) > 0 {
		h.runner.ready.reserve()
	}
	read := make(chan *arrival)
	go func() {
		a, _ := h.runner.read(context.Background(), m)
		read <- a
	}()
	h.runner.ready.arrive(nil)
	if a := <-read; a == nil || putBack.Load() != 0 {
		t.Errorf("it did not wait: %+v, %d put back", a, putBack.Load())
	}
	h.runner.ready.reserve()
	h.hold(time.Hour)
	if a, err := h.runner.read(t.Context(), m); a != nil || err != nil || putBack.Load() != 1 {
		t.Errorf("a paused lane: %+v %v, %d put back", a, err, putBack.Load())
	}
}
