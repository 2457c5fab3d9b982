// This file ends requests that a NATS server denies. The server does not reply to a request
// on a forbidden subject; it only reports an error on the connection.

package queue

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"

	"github.com/nats-io/nats.go"
)

// DeniedError reports that the connection's user has no permission for a subject.
type DeniedError struct{ Subject string }

// Error says which subject is denied and where permissions are configured.
func (e *DeniedError) Error() string {
	return fmt.Sprintf("the NATS user of this connection has no permission for %s: log in as a user whose role gives it (nats.users, docs/security.md)", e.Subject)
}

// denials has the pending requests that the server may deny.
type denials struct {
	mu    sync.Mutex
	waits map[*waiting]struct{}
}

type waiting struct {
	subject string
	end     context.CancelCauseFunc
}

var deniedSubject = regexp.MustCompile(`Permissions Violation for Publish to "([^"]+)"`)

// heard ends the pending requests for the subject of a permission error. It reports whether
// there were any.
func (d *denials) heard(err error) bool {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return false
	}
	m := deniedSubject.FindStringSubmatch(err.Error())
	if m == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	found := false
	for w := range d.waits {
		if w.subject == m[1] {
			w.end(&DeniedError{m[1]})
			found = true
		}
	}
	return found
}

// Allowed returns a context that is cancelled if the server denies the subject. The cause
// is then a [DeniedError]. The returned function releases the context.
func (j *JetStream) Allowed(ctx context.Context, subject string) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	d, w := &j.denials, &waiting{subject, cancel}
	d.mu.Lock()
	if d.waits == nil {
		d.waits = map[*waiting]struct{}{}
	}
	d.waits[w] = struct{}{}
	d.mu.Unlock()
	return ctx, func() {
		cancel(nil)
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.waits, w)
	}
}

// Denied returns the [DeniedError] that cancelled a context of Allowed. If there is none, or
// if err is nil, it returns err.
func Denied(ctx context.Context, err error) error {
	if refused, ok := errors.AsType[*DeniedError](context.Cause(ctx)); ok && err != nil {
		return refused
	}
	return err
}
