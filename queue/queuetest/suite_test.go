// The suite that JetStream's commands stream and the simulated one must both pass.

package queuetest

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"perennial/queue"
	"perennial/queue/intake"
)

// Commands is a commands stream as the suite uses it.
type Commands interface {
	// Publish stores a command.
	Publish(t *testing.T, kind queue.Kind, data []byte)
	// Take fetches n commands, in as many calls as needed.
	Take(t *testing.T, n int) []intake.Message
	// Reopen replaces the consumer with a new one.
	Reopen(t *testing.T)
	// AwaitLeft waits until n commands are unacknowledged.
	AwaitLeft(t *testing.T, n int)
}

// Suite checks what intake relies on, whatever the stream.
func Suite(t *testing.T, open func(t *testing.T) Commands) {
	t.Helper()
	for name, scene := range map[string]func(*testing.T, Commands){
		"in the order of publication, once each":                       inOrder,
		"two of the same content are two":                              twins,
		"put back, it comes again":                                     putBack,
		"what a consumer leaves behind comes to the next":              leftBehind,
		"acknowledged out of order, none is lost and none comes again": outOfOrder,
		"acknowledged twice":                                           twice,
	} {
		t.Run(name, func(t *testing.T) { scene(t, open(t)) })
	}
}

func publishAll(t *testing.T, s Commands, n int) {
	t.Helper()
	for i := range n {
		s.Publish(t, queue.KindProxyRenew, []byte(strconv.Itoa(i)))
	}
}

func inOrder(t *testing.T, s Commands) {
	t.Helper()
	publishAll(t, s, 20)
	for i, m := range s.Take(t, 20) {
		if string(m.Data) != strconv.Itoa(i) || m.Kind != queue.KindProxyRenew || m.Delivered != 1 {
			t.Errorf("message %d is %q, %s, delivered %d times", i, m.Data, m.Kind, m.Delivered)
		}
		ack(t, m)
	}
	s.AwaitLeft(t, 0)
}

func twins(t *testing.T, s Commands) {
	t.Helper()
	s.Publish(t, queue.KindOrderCreate, []byte("same"))
	s.Publish(t, queue.KindOrderCreate, []byte("same"))
	both := s.Take(t, 2)
	if both[0].StreamSequence == both[1].StreamSequence {
		t.Error("one was delivered twice")
	}
	ack(t, both[0])
	s.AwaitLeft(t, 1)
	ack(t, both[1])
	s.AwaitLeft(t, 0)
}

func putBack(t *testing.T, s Commands) {
	t.Helper()
	publishAll(t, s, 3)
	all := s.Take(t, 3)
	if err := all[1].Nak(0); err != nil {
		t.Fatal(err)
	}
	again := s.Take(t, 1)[0]
	if string(again.Data) != "1" || again.Delivered != 2 {
		t.Errorf("%q came, delivered %d times", again.Data, again.Delivered)
	}
	for _, m := range []intake.Message{all[0], again, all[2]} {
		ack(t, m)
	}
	s.AwaitLeft(t, 0)
}

func leftBehind(t *testing.T, s Commands) {
	t.Helper()
	publishAll(t, s, 30)
	first := s.Take(t, 20)
	ack(t, first[3])
	ack(t, first[17])
	s.AwaitLeft(t, 28)
	s.Reopen(t)
	seen := make([]string, 0, 28)
	for _, m := range s.Take(t, 28) {
		seen = append(seen, string(m.Data))
		ack(t, m)
	}
	if slices.Contains(seen, "3") || slices.Contains(seen, "17") || len(slices.Compact(slices.Sorted(slices.Values(seen)))) != 28 {
		t.Errorf("the second consumer had %v", seen)
	}
	s.AwaitLeft(t, 0)
}

func outOfOrder(t *testing.T, s Commands) {
	t.Helper()
	publishAll(t, s, 60)
	all := s.Take(t, 60)
	slices.Reverse(all)
	for _, m := range all[:40] {
		ack(t, m)
	}
	s.AwaitLeft(t, 20)
	s.Reopen(t)
	for i, m := range s.Take(t, 20) {
		if string(m.Data) != strconv.Itoa(i) {
			t.Errorf("%q came in place of %d", m.Data, i)
		}
		ack(t, m)
	}
	s.AwaitLeft(t, 0)
}

func twice(t *testing.T, s Commands) {
	t.Helper()
	publishAll(t, s, 1)
	m := s.Take(t, 1)[0]
	ack(t, m)
	_ = m.Ack() // JetStream reports that it was already acknowledged, or nothing
	s.AwaitLeft(t, 0)
}

func ack(t *testing.T, m intake.Message) {
	t.Helper()
	if err := m.Ack(); err != nil {
		t.Fatal(err)
	}
}

// simulated adapts Stream to the suite.
type simulated struct {
	*Stream
	at time.Time
}

// Simulated returns a Stream for the suite.
func Simulated(*testing.T) Commands {
	s := &simulated{at: time.Unix(0, 0)}
	s.Stream = NewStream(func() time.Time { return s.at })
	return s
}

func (s *simulated) Publish(_ *testing.T, kind queue.Kind, data []byte) { s.Stream.Publish(kind, data) }
func (s *simulated) Reopen(*testing.T)                                  { s.Stream.Reopen() }

func (s *simulated) Take(t *testing.T, n int) []intake.Message {
	t.Helper()
	messages, err := s.Fetch(context.Background(), n)
	if err != nil || len(messages) != n {
		t.Fatalf("%d of %d commands: %v", len(messages), n, err)
	}
	return messages
}

func (s *simulated) AwaitLeft(t *testing.T, n int) {
	t.Helper()
	if s.Left() != n {
		t.Fatalf("%d commands are left instead of %d", s.Left(), n)
	}
}
