// A runner older than the account's events: it stays a standby, reports it, and leaves
// the lease to runners that can fold them.

package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"perennial/cmd/perennial/internal/config"
	"perennial/ledger"
	"perennial/ledger/fact"
)

// laterError says that a later version of the program wrote a row that this one cannot
// fold.
type laterError struct {
	seq     int64
	unknown *fact.UnknownError
	version string // of the last started runner, "" if unknown or the same as this one's
}

func (e *laterError) Error() string {
	by, install := "", "the version that wrote it, or a later one: `perennial runners` shows which versions run"
	if e.version != "" {
		by, install = fmt.Sprintf(" (the runner that began last is %s)", e.version), e.version+" or a later version"
	}
	return fmt.Sprintf("a newer version of the program wrote row %d of the account's events%s: %s is not known to this one, %s. "+
		"So this runner stays a standby: it folds nothing from there on, and sends nothing. Install %s", e.seq, by, e.unknown.What(), config.Version, install)
}

func (e *laterError) Unwrap() error { return e.unknown }

// foldBefore folds the rows before the unknown one at seq, and returns the error for
// that one.
func (j journal) foldBefore(ctx context.Context, rows []ledger.Row, seq int64, unknown *fact.UnknownError) error {
	if n := seq - rows[0].Seq; n > 0 {
		if err := j.ledger.Fold(ctx, rows[:n]); err != nil {
			return err
		}
	}
	version, err := j.ledger.LastVersion(ctx)
	if err != nil || version == config.Version {
		version = ""
	}
	return &laterError{seq: seq, unknown: unknown, version: version}
}

// outdated says whether the runner met a row of a later version that it cannot fold. Its
// zero value says no.
type outdated struct {
	mu      sync.Mutex
	why     string        // "" while all rows could be folded
	changed chan struct{} // closed when why changes; nil without a waiter
}

// note notes the result of a fold; nil means that rows were folded. Errors other than
// laterError are ignored.
func (o *outdated) note(err error) {
	later, ok := errors.AsType[*laterError](err)
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

// isLater reports whether an error is about a row of a later version.
func isLater(err error) bool {
	_, ok := errors.AsType[*laterError](err)
	return ok
}
