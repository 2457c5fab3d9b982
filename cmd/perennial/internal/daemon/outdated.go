// A runner that is older than the account's events. It stays a standby, shows the reason, and
// leaves the lease to runners that can apply the events.

package daemon

import (
	"errors"
	"sync"

	"perennial/cmd/perennial/internal/journal"
)

// outdated records whether a later version wrote a row that this runner cannot apply. The
// zero value means that it did not.
type outdated struct {
	mu      sync.Mutex
	why     string        // "" while all rows could be applied
	changed chan struct{} // closed when why changes; nil if no goroutine waits for a change
}

// note records the error from applying rows, or nil after success. It ignores errors other
// than LaterError.
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

// state returns why the runner is outdated, or "". The channel closes when the reason changes.
func (o *outdated) state() (why string, changed <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.changed == nil {
		o.changed = make(chan struct{})
	}
	return o.why, o.changed
}
