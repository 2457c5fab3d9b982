// Turns: the writers of several ledgers in one process work in turn, so that each has a
// large group.

package ledger

import "time"

// turnMost bounds how long a writer waits for its turn, so that a ledger whose file is
// stuck does not block the others.
const turnMost = 250 * time.Millisecond

// Turns limits how many writers of one process work on their groups at once. A group shares
// the cost of its commit. Writers that compete for cores have small groups; those that take
// turns have large ones. Only work counts: a writer that waits for the disk or for a
// publication gives up its turn. It is safe for concurrent use; nil sets no limit.
type Turns struct {
	taken chan struct{}
	most  time.Duration // longest wait for a turn
}

// NewTurns lets n writers work at once, at least 1.
func NewTurns(n int) *Turns { return &Turns{taken: make(chan struct{}, max(n, 1)), most: turnMost} }

// take waits for a turn. It returns false if none came in time; then none must be given
// back.
func (t *Turns) take() bool {
	if t == nil {
		return false
	}
	select {
	case t.taken <- struct{}{}:
		return true
	default:
	}
	timer := time.NewTimer(t.most)
	defer timer.Stop()
	select {
	case t.taken <- struct{}{}:
		return true
	case <-timer.C:
		return false
	}
}

func (t *Turns) give() { <-t.taken }
