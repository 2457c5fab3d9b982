// A runner older than the account's events: it stays a standby, reports it, and leaves
// the lease to runners that can fold them.

package daemon

import (
	"errors"
	"sync"

	"perennial/cmd/perennial/internal/journal"
)

// outdated says whether the runner met a row of a later version that it cannot fold. Its
// zero value says no.
type outdated struct {
	mu      sync.Mutex
	why     string        // "" while all rows could be folded
	changed chan struct{} // closed when why changes; nil without a waiter
}

// note notes the result of a fold; nil means that rows were folded. Errors other than
// LaterError are ignored.
func (o *outdated) note(err error) {
	later, ok := errors.AsType[*journal.LaterError](err)
	if err != nil && !ok {
		return
	}
	why := ""
	if ok {
		why = later.Error()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.why == why {
		return
	}
	o.why = why
	if o.changed != nil {
		close(o.changed)
		o.changed = nil
	}
}

// look returns why the runner is outdated, "" if it is not, and a channel that closes
// when that changes.
func (o *outdated) look() (why string, changed <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.changed == nil {
		o.changed = make(chan struct{})
	}
	return o.why, o.changed
}
