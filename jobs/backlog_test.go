package jobs

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"perennial/jobs/decide"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/queue"
	"perennial/queue/intake"
)

// counting is a commands stream that counts the messages returned to it.
type counting struct {
	Commands
	putBack *atomic.Int64
}

type countedDelivery struct {
	message intake.Message
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

func (c counting) Fetch(ctx context.Context, line queue.Line, limit int) ([]intake.Message, error) {
	messages, err := c.Commands.Fetch(ctx, line, limit)
	for i, m := range messages {
		messages[i] = intake.NewMessage(m, &countedDelivery{m, c.putBack})
	}
	return messages, err
}

// The backlog stays in the stream, in order. A message that is put back is redelivered only
// seconds later.
func TestABacklogEntersAsThereIsRoomAndNothingReturns(t *testing.T) {
	t.Parallel()
	h := idleRig(t, func(c *Config) { c.Concurrency = 1 })
	const backlog = 300
	for n := range backlog {
		h.renew(fmt.Sprintf(`{"id":"r%d","duration_days":30,"proxy_ids":["px_nowhere_%d"]}`, n, n))
	}
	var putBack atomic.Int64
	h.commands = func(c Commands) Commands { return counting{c, &putBack} }
	h.start()
	h.await(fmt.Sprintf("r%d", backlog-1), fact.StateRejected)
	if n := putBack.Load(); n != 0 {
		t.Errorf("%d of %d commands were put back", n, backlog)
	}
}

// delivered returns a message that is not from a stream.
func (d *countedDelivery) delivered(text string) *intake.Message {
	return new(intake.NewMessage(intake.Message{Kind: queue.KindProxyRenew, Data: []byte(text)}, d))
}

// A command that has arrived no longer counts as coming. If it counted twice, other commands
// would be put back.
func TestRoomThatIsReservedIsNotTakenTwice(t *testing.T) {
	h := idleRig(t)
	var putBack atomic.Int64
	renewals := placeOf(queue.Line{Kind: queue.KindProxyRenew})
	room := h.runner.ready.free(renewals)
	for n := range 3 {
		m := (&countedDelivery{putBack: &putBack}).delivered(fmt.Sprintf(`{"id":"r%d","duration_days":30,"proxy_ids":["px_%d"]}`, n, n+1))
		a, err := h.runner.read(t.Context(), m)
		check(t, err)
		h.runner.ready.reserve(a.place())
		check(t, h.runner.acceptBatch(t.Context(), []*arrival{a}))
		if free := h.runner.ready.free(renewals); free != room-n-1 {
			t.Errorf("behind %d commands there is room for %d of %d", n+1, free, room)
		}
	}
}

// Polls of paid orders go before new charges, attempts that may have executed go before both,
// and nothing starves.
func TestTrap58SettlingComesBeforePayingForMore(t *testing.T) {
	r := newReady(100, newPauses(time.Now))
	push := func(l lane, p gatePriority, n int) {
		for i := range n {
			r.push(&job{lane: l, priority: p, at: someNoon.Add(time.Duration(i) * time.Second), op: decide.Operation{Operation: fact.Operation{ID: fmt.Sprintf("%s-%d-%d", l, p, i)}}})
		}
	}
	push(laneRenewal, priorityRenewal, 4)
	push(laneOrder, priorityOrder, 4)
	push(lanePoll, priorityPoll, 18)
	push(laneOrder, priorityAmbiguous, 2)
	var order strings.Builder
	for range 28 {
		j, err := r.pop(t.Context())
		check(t, err)
		order.WriteString(map[lane]string{laneOrder: "o", laneRenewal: "r", lanePoll: "p"}[j.lane])
	}
	if got := order.String(); got != "oo"+strings.Repeat("pppr", 3)+"pppo"+"pppr"+"pppo"+"oo" {
		t.Error(got)
	}
}

// An operation that cannot be read delays no other operation, at a start or later.
func TestABrokenRecordHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	h := idleRig(t)
	past := h.now().Add(-time.Minute).UTC()
	for _, id := range []string{"broken", "waits"} {
		planned := fact.Planned{OperationID: id + "/0001", Chunk: "0001", Generation: 1, Key: "k-" + id, ProxyIDs: []string{"px_" + map[string]string{"broken": "5", "waits": "6"}[id]}}
		facts := []fact.Fact{fact.CommandAccepted{
			Ref: fact.Ref{CommandID: id}, Kind: fact.KindRenewal, ContentHash: "h", Content: []byte(`{"id":5}`), DurationDays: 30, Operations: []fact.Planned{planned},
		}}
		if id == "waits" {
			facts = append(facts, fact.OperationWaiting{Ref: fact.Ref{CommandID: id, OperationID: id + "/0001"}, Reason: "test", NextAt: past})
		}
		check(t, h.ledger.Write(t.Context(), func(tx *ledger.Tx) error { return tx.Append(facts...) }))
	}
	h.accepts(`{"id":"good","duration_days":30,"proxy_ids":["px_1"]}`)
	o, err := h.ledger.Operations.Operation(t.Context(), "good/0001")
	check(t, err)
	check(t, h.ledger.Write(t.Context(), func(tx *ledger.Tx) error {
		_, err := tx.AppendTo(o.ID, o.Version, fact.OperationWaiting{Ref: fact.Ref{CommandID: "good", OperationID: o.ID}, Reason: "test", NextAt: past.Add(time.Second)})
		return err
	}))
	h.start()
	h.await("good", fact.StateCompleted)
}

// idle reports whether no job of a lane is queued or in progress.
func (r *ready) idle(l lane) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for t, n := range r.counts {
		if t.lane == l && n > 0 {
			return false
		}
	}
	return true
}
