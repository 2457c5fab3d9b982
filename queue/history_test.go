package queue

import (
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// loose is an events stream that was made without its protections, with n events
// in it.
func loose(t *testing.T, q *Queue, n int) jetstream.Stream {
	t.Helper()
	stream, err := q.js.CreateStream(within(t), jetstream.StreamConfig{Name: EventsStream("main"), Subjects: []string{EventSubject("main", ">")}, AllowDirect: true})
	check(t, err)
	fill(t, q, 1, n, strconv.Itoa)
	return stream
}

// told is what History yields: the sequences, and its error.
func told(t *testing.T, q *Queue, first uint64) (seqs []uint64, failed error) {
	t.Helper()
	for e, err := range EventsOf(q.JetStream(), "main").History(within(t), first) {
		if err != nil {
			return seqs, err
		}
		seqs = append(seqs, e.Seq)
	}
	return seqs, nil
}

func TestHistoryEndsWhereTheStreamDoes(t *testing.T) {
	q := connect(t, startServer(t, t.TempDir()))
	loose(t, q, 0)
	if seqs, err := told(t, q, 1); len(seqs) != 0 || err != nil {
		t.Errorf("an empty stream: %v %v", seqs, err)
	}
	// Of another server: one that removes a stream may not yet store a new one of its name.
	q = connect(t, startServer(t, t.TempDir()))
	stream := loose(t, q, 5)
	for first, want := range map[uint64]int{0: 5, 1: 5, 4: 2, 5: 1, 6: 0} {
		if seqs, err := told(t, q, first); len(seqs) != want || err != nil {
			t.Errorf("from %d: %v %v", first, seqs, err)
		}
	}
	check(t, stream.DeleteMsg(within(t), 3))
	if seqs, err := told(t, q, 1); len(seqs) != 4 || seqs[2] != 4 || err != nil {
		t.Errorf("a removed event is reported: %v %v", seqs, err)
	}
	check(t, stream.DeleteMsg(within(t), 5))
	if _, err := told(t, q, 1); err == nil || !strings.Contains(err.Error(), "deleted from its end") {
		t.Errorf("its end taken away: %v", err)
	}
	check(t, stream.Purge(within(t)))
	if _, err := told(t, q, 1); err == nil || !strings.Contains(err.Error(), "deleted from its end") {
		t.Errorf("purged: %v", err)
	}
}

func TestHistoryOfAnAccountWithoutAStreamSaysSo(t *testing.T) {
	q := connect(t, startServer(t, t.TempDir()))
	if _, err := told(t, q, 1); err == nil || !strings.Contains(err.Error(), ErrNoAccount.Error()) {
		t.Errorf("got %v", err)
	}
}
