// Turns: the writers of several ledgers of one process work in turn, so that each has a
// large group when it does.

package ledger

import "time"

// turnMost bounds how long a writer waits for its turn: a ledger whose file is stuck keeps
// the others from nothing.
const turnMost = 250 * time.Millisecond

// Turns is how many writers of one process work on their groups at once. What a commit
// costs is shared by its group: writers that compete for the cores have small groups, and
// those that wait for one another large ones. Only the work counts: a writer that waits
// for the disk, or for a publication, leaves its turn to the next. It may be used
// concurrently; nil lets everyone work.
type Turns struct {
	taken chan struct{}
	most  time.Duration // that a writer waits
}

// NewTurns lets n writers work at once, 1 at least.
func NewTurns(n int) *Turns { return &Turns{taken: make(chan struct{}, max(n, 1)), most: turnMost} }

// take waits for a turn. false: there was none in time, and none has to be given back.
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

// give gives a turn back.
func (t *Turns) give() { <-t.taken }
