package events

import (
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"perennial/queue"
	"perennial/queue/natstest"
	"perennial/queue/natstest/jstest"
)

// loose returns an unprotected events stream with n events.
func loose(t *testing.T, js *queue.JetStream, n int) jetstream.Stream {
	t.Helper()
	stream, err := js.CreateStream(natstest.Within(t), jetstream.StreamConfig{Name: queue.EventsStream("main"), Subjects: []string{queue.EventSubject("main", ">")}, AllowDirect: true})
	natstest.Check(t, err)
	fill(t, js, 1, n, strconv.Itoa)
	return stream
}

// told returns the sequences that History yields, and its error.
func told(t *testing.T, js *queue.JetStream, first uint64) (seqs []uint64, failed error) {
	t.Helper()
	for e, err := range Of(js, "main").History(natstest.Within(t), first) {
		if err != nil {
			return seqs, err
		}
		seqs = append(seqs, e.Seq)
	}
	return seqs, nil
}

func TestHistoryEndsWhereTheStreamDoes(t *testing.T) {
	js := jstest.New(t)
	loose(t, js, 0)
	if seqs, err := told(t, js, 1); len(seqs) != 0 || err != nil {
		t.Errorf("an empty stream: %v %v", seqs, err)
	}
	// Use another server: one that is removing a stream may not yet store a new one of its
	// name.
	js = jstest.New(t)
	stream := loose(t, js, 5)
	for first, want := range map[uint64]int{0: 5, 1: 5, 4: 2, 5: 1, 6: 0} {
		if seqs, err := told(t, js, first); len(seqs) != want || err != nil {
			t.Errorf("from %d: %v %v", first, seqs, err)
		}
	}
	natstest.Check(t, stream.DeleteMsg(natstest.Within(t), 3))
	if seqs, err := told(t, js, 1); len(seqs) != 4 || seqs[2] != 4 || err != nil {
		t.Errorf("a removed event is reported: %v %v", seqs, err)
	}
	natstest.Check(t, stream.DeleteMsg(natstest.Within(t), 5))
	if _, err := told(t, js, 1); err == nil || !strings.Contains(err.Error(), "deleted from its end") {
		t.Errorf("its end taken away: %v", err)
	}
	natstest.Check(t, stream.Purge(natstest.Within(t)))
	if _, err := told(t, js, 1); err == nil || !strings.Contains(err.Error(), "deleted from its end") {
		t.Errorf("purged: %v", err)
	}
}

func TestHistoryOfAnAccountWithoutAStreamSaysSo(t *testing.T) {
	js := jstest.New(t)
	if _, err := told(t, js, 1); err == nil || !strings.Contains(err.Error(), queue.ErrNoAccount.Error()) {
		t.Errorf("got %v", err)
	}
}
