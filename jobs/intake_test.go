package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"perennial/jobs/command"
	"perennial/ledger/fact"
	"perennial/queue"
	"perennial/queue/intake"
)

// offered is one message in the intake. It ends exactly once.
type offered struct{ ended chan bool }

func (o offered) Ack() error              { o.ended <- true; return nil }
func (o offered) Nak(time.Duration) error { o.ended <- false; return nil }

type byHand map[queue.Kind]chan intake.Message // by kind

func (c byHand) Rest(queue.Line) {}

func (c byHand) Fetch(ctx context.Context, line queue.Line, _ int) ([]intake.Message, error) {
	stream := c[line.Kind]
	if line.Priority != queue.PriorityNormal {
		stream = nil
	}
	select {
	case m := <-stream:
		return []intake.Message{m}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// intake runs the intake of a runner that sends nothing. offer passes it a message and reports
// whether the message was acknowledged or put back.
func (h *rig) intake() (offer func(kind queue.Kind, data []byte) (acknowledged bool)) {
	stream := byHand{queue.KindOrderCreate: make(chan intake.Message), queue.KindProxyRenew: make(chan intake.Message)}
	h.runner.Commands = stream
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = h.runner.runIntake(ctx) }()
	h.t.Cleanup(func() { cancel(); <-ended })
	return func(kind queue.Kind, data []byte) bool {
		o := offered{ended: make(chan bool, 1)}
		stream[kind] <- intake.NewMessage(intake.Message{Kind: kind, Subject: queue.CommandSubject("main", kind), Data: data, Published: h.now()}, o)
		h.runner.ready.forget()
		return <-o.ended
	}
}

// said returns the number of dead letters and of journal rows.
func (h *rig) said() (dead, rows int) {
	seq, _, err := h.ledger.Head(h.t.Context())
	check(h.t, err)
	return len(h.dead), int(seq)
}

func TestTrap46AnInstantOutsideTheYearsOfUTCIsRefused(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	fields := map[string]string{
		"late":     `"not_after":"9999-12-31T23:59:59-05:00"`,
		"early":    `"not_after":"0000-01-01T00:00:00+05:00"`,
		"due":      `"due_before":"9999-12-31T23:59:59-05:00"`,
		"expected": `"expect_expires_at":{"px_1":"9999-12-31T23:59:59-05:00"}`,
	}
	cmd := func(id string) string {
		return `{"id":"` + id + `","duration_days":30,"proxy_ids":["px_1"],` + fields[id] + `}`
	}
	for id := range fields {
		if _, err := command.Parse(fact.KindRenewal, []byte(cmd(id)), rulesOfSandbox); err == nil {
			t.Fatalf("%s is taken in", fields[id])
		}
	}
	for id, field := range fields {
		h.renew(cmd(id))
		s := h.await(id, fact.StateRejected)
		name, _, _ := strings.Cut(strings.TrimPrefix(field, `"`), `"`)
		if !strings.Contains(s.Reason, name) || !strings.Contains(s.Reason, "year") {
			t.Errorf("%s: %q does not name %s and the year", id, s.Reason, name)
		}
	}
	h.settled(0, 0)
}

var instants = []string{
	"2026-11-25T00:00:00Z", "9999-12-31T23:59:59-05:00", "0000-01-01T00:00:00+05:00", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z",
	"2026-11-25", "", "10000-01-01T00:00:00Z", "1969-12-31T23:59:59+14:00",
}

// anyCommand draws a command's bytes: valid, with one odd field, or malformed.
func anyCommand(t *rapid.T, id string) []byte {
	fields := map[string]any{"id": id, "duration_days": 30}
	draw := func(name string, from ...any) {
		if v := rapid.SampledFrom(append(from, nil)).Draw(t, name); v != nil {
			fields[name] = v
		}
	}
	at := func(name string) any { return rapid.SampledFrom(instants).Draw(t, name+" at") }
	draw("proxy_ids", []string{"px_1"}, []string{"px_1", "px_2"}, []string{}, "px_1", []string{"\x00"})
	draw("items", []map[string]any{{"offer_code": "off_us_dallas", "quantity": 1}}, []any{}, 7)
	draw("not_after", at("not_after"))
	draw("due_before", at("due_before"))
	draw("expect_expires_at", map[string]any{"px_1": at("expect")})
	draw("labels", map[string]string{"a": rapid.String().Draw(t, "label")}, map[string]string{"": "x"}, []int{1})
	draw("max_total_cents", 1, 0, -1, json.Number("1e400"), json.Number("9223372036854775807"))
	draw("duration_days", 30, 1110, json.Number("30.0"), -30)
	draw("id", id, "", strings.Repeat("x", 200), "\ufffd", 5)
	data, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	for range rapid.IntRange(0, 2).Draw(t, "broken") {
		at := rapid.IntRange(0, len(data)).Draw(t, "where")
		more := rapid.SliceOfN(rapid.Byte(), 0, 3).Draw(t, "bytes")
		cut := rapid.IntRange(at, min(at+2, len(data))).Draw(t, "to")
		data = append(append(append([]byte{}, data[:at]...), more...), data[cut:]...)
	}
	return data
}

// For any bytes, a message is acknowledged only after its own fact or dead letter, or if the
// same content was answered before.
func TestNothingIsAcknowledgedWithoutAFactOrADeadLetter(t *testing.T) {
	h := idleRig(t)
	offer, answered, n := h.intake(), map[string]bool{}, 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		kind := rapid.SampledFrom([]queue.Kind{queue.KindOrderCreate, queue.KindProxyRenew}).Draw(t, "kind")
		data := anyCommand(t, fmt.Sprintf("c-%d", n%50))
		deadBefore, rowsBefore := h.said()
		if !offer(kind, data) {
			t.Fatalf("%q was put back, and nothing keeps it from being recorded", data)
		}
		dead, rows := h.said()
		if dead == deadBefore && rows == rowsBefore && !answered[contentOf(kind, data)] {
			t.Fatalf("%q was acknowledged and left no fact and no dead letter", data)
		}
		answered[contentOf(kind, data)] = true
	})
}

// contentOf returns the id and content that identify a command.
func contentOf(kind queue.Kind, data []byte) string {
	c, err := command.Parse(KindOf(kind), data, rulesOfSandbox)
	if err != nil {
		return string(kind) + " " + string(data)
	}
	_, hash, err := c.Content()
	if err != nil {
		return string(kind) + " " + string(data)
	}
	return string(kind) + " " + c.ID + " " + hash
}
