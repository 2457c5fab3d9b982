// Requests that a NATS server denies. The server does not answer a request on a forbidden
// subject: it reports an error on the connection. This file ends the waiting requests.

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

// Error names the subject and where permissions come from.
func (e *DeniedError) Error() string {
	return fmt.Sprintf("the NATS user of this connection has no permission for %s: log in as a user whose role gives it (nats.users, docs/security.md)", e.Subject)
}

// denials holds the pending requests that a refusal ends.
type denials struct {
	mu    sync.Mutex
	waits map[*waiting]struct{}
}

// waiting is one pending request.
type waiting struct {
	subject string
	end     context.CancelCauseFunc
}

var deniedSubject = regexp.MustCompile(`Permissions Violation for Publish to "([^"]+)"`)

// heard ends the requests that a connection error is about, and reports whether there were
// any.
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

// Allowed returns a context that ends with a [DeniedError] as its cause if the server
// refuses the subject.
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

// Denied returns the refusal that ended a context, otherwise err itself.
func Denied(ctx context.Context, err error) error {
	if refused, ok := errors.AsType[*DeniedError](context.Cause(ctx)); ok && err != nil {
		return refused
	}
	return err
}
