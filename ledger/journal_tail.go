// The newest rows of the journal in memory, for the outbox that publishes them.

package ledger

import (
	"sync"

	"perennial/ledger/chain"
)

// tailRows is the number of rows in memory, so that the outbox need not read back rows that
// were just written.
const tailRows = 8192

// tail has the newest rows of the journal and signals when it grows.
type tail struct {
	mu      sync.Mutex
	rows    []chain.Row // contiguous, ending at head
	head    chain.Head
	changed chan struct{}
}

func newTail(seq int64, hash string) *tail {
	return &tail{head: chain.Head{Seq: seq, Hash: hash}, changed: make(chan struct{})}
}

func (t *tail) add(rows []chain.Row, h chain.Head) {
	if len(rows) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rows = append(t.rows, rows...)
	if over := len(t.rows) - tailRows; over > tailRows/2 {
		t.rows = append(make([]chain.Row, 0, 2*tailRows), t.rows[over:]...)
	}
	t.head = h
	close(t.changed)
	t.changed = make(chan struct{})
}

// after returns up to limit rows after seq. ok is false if the tail does not reach back
// that far.
func (t *tail) after(seq int64, limit int) ([]chain.Row, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if seq >= t.head.Seq {
		return nil, true
	}
	if len(t.rows) == 0 || t.rows[0].Seq > seq+1 {
		return nil, false
	}
	rows := t.rows[seq+1-t.rows[0].Seq:]
	if len(rows) > limit {
		rows = rows[:limit]
	}
	return rows, true
}

// Changed returns a channel that is closed once the journal has a row after seq, possibly
// already.
func (l *Journal) Changed(seq int64) <-chan struct{} {
	l.tail.mu.Lock()
	defer l.tail.mu.Unlock()
	if l.tail.head.Seq > seq {
		now := make(chan struct{})
		close(now)
		return now
	}
	return l.tail.changed
}
