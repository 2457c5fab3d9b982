// Turns: the writers of several ledgers in one process take turns, so that each commits
// large groups.

package ledger

import "time"

// turnMost limits how long a writer waits for its turn, so that a stuck ledger file does
// not block the others.
const turnMost = 250 * time.Millisecond

// Turns limits how many writers of one process work at once. The writes of a group share
// the cost of a commit. Writers that compete for CPU cores commit small groups; writers
// that take turns commit large ones. A writer that waits for the disk or for a publication
// gives up its turn. Turns is safe for concurrent use; nil sets no limit.
type Turns struct {
	taken chan struct{}
	most  time.Duration // maximum wait for a turn
}

// NewTurns returns Turns for n writers at once, at least 1.
func NewTurns(n int) *Turns { return &Turns{taken: make(chan struct{}, max(n, 1)), most: turnMost} }

// take waits for a turn. It returns false if no turn came in time; the caller must then not
// call give.
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
