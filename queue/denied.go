// Requests that a NATS server denies. It does not answer a request on a subject that
// its user has no permission for: it reports an error on the connection, and the
// requests that wait there are ended here.

package queue

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"

	"github.com/nats-io/nats.go"
)

// DeniedError says that the user of the connection has no permission for a subject.
type DeniedError struct{ Subject string }

// Error names the subject and where permissions come from.
func (e *DeniedError) Error() string {
	return fmt.Sprintf("the NATS user of this connection has no permission for %s: log in as a user whose role gives it (nats.users, docs/security.md)", e.Subject)
}

// denials are the requests in progress that a refusal ends.
type denials struct {
	mu    sync.Mutex
	waits map[*waiting]struct{}
}

// waiting is one of them.
type waiting struct {
	subject string
	end     context.CancelCauseFunc
}

var deniedSubject = regexp.MustCompile(`Permissions Violation for Publish to "([^"]+)"`)

// heard ends the requests that an error of the connection is about, if it is about any.
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

// Allowed ends with a [DeniedError] as its cause when the server refuses the subject.
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

// Denied is the refusal that ended a context, or else the error as it is.
func Denied(ctx context.Context, err error) error {
	if refused, ok := errors.AsType[*DeniedError](context.Cause(ctx)); ok && err != nil {
		return refused
	}
	return err
}
