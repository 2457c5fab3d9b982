package outbox

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"perennial/queue"
)

// journal is a ledger in memory.
type journal struct {
	mu      sync.Mutex
	rows    []Event
	changed chan struct{}
}

func newJournal(name string, rows int) *journal {
	j := &journal{changed: make(chan struct{})}
	j.append(name, rows)
	return j
}

// append adds rows whose hashes contain name.
func (j *journal) append(name string, rows int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for range rows {
		seq := uint64(len(j.rows) + 1)
		j.rows = append(j.rows, Event{Seq: seq, Hash: fmt.Sprintf("%s-%d", name, seq), Type: "order.delivered",
			Payload: fmt.Appendf(nil, `{"specversion":"1.0","id":"main/1/%d"}`, seq)})
	}
	close(j.changed)
	j.changed = make(chan struct{})
}

// answer adds a row with an answer to an inbox.
func (j *journal) answer(name, inbox, reply string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	seq := uint64(len(j.rows) + 1)
	j.rows = append(j.rows, Event{Seq: seq, Hash: fmt.Sprintf("%s-%d", name, seq), Type: "command.finished",
		Payload: fmt.Appendf(nil, `{"specversion":"1.0","id":"main/1/%d"}`, seq), ReplyTo: inbox, Reply: []byte(reply)})
	close(j.changed)
	j.changed = make(chan struct{})
}

func (j *journal) Events(_ context.Context, after uint64, limit int) ([]Event, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	rows := j.rows[min(after, uint64(len(j.rows))):]
	return rows[:min(limit, len(rows))], nil
}

func (j *journal) Changed(after uint64) <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	if uint64(len(j.rows)) > after {
		ready := make(chan struct{})
		close(ready)
		return ready
	}
	return j.changed
}

func (j *journal) HashAt(_ context.Context, seq uint64) (string, bool, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if seq < 1 || seq > uint64(len(j.rows)) {
		return "", false, nil
	}
	return j.rows[seq-1].Hash, true, nil
}

// startOutbox runs an outbox until the test ends; its error arrives on the channel.
func startOutbox(t testing.TB, js *queue.JetStream, source Source) (*Outbox, <-chan error) {
	t.Helper()
	outbox := New(js, "main", source)
	return outbox, runOutbox(t, outbox)
}

// runOutbox is startOutbox for an existing outbox.
func runOutbox(t testing.TB, outbox *Outbox) <-chan error {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	result, done := make(chan error, 1), make(chan struct{})
	go func() {
		result <- outbox.Run(ctx)
		close(done)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return result
}
