// The service requests `wait` and `lines`, which return the result of a command.

package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/ledger"
	"perennial/ledger/tables"
	"perennial/queue"
	"perennial/queue/service"
)

// Limits of one request. The runner does not notice when a client disconnects. It therefore
// answers each request after mostParked at the latest, so that other requests can be served.
const (
	longestWait = time.Hour
	mostParked  = 5 * time.Minute
)

// wait returns when the command has ended or the time has elapsed. It also waits for an
// unknown id, because the command may still arrive. If the id is still unknown at the end,
// it returns ledger.ErrNotFound.
func (a answers) wait(ctx context.Context, q verbs.WaitRequest) (verbs.WaitAnswer, error) {
	switch {
	case q.ID == "":
		return verbs.WaitAnswer{}, errNoID
	case q.TimeoutSeconds < 0 || q.TimeoutSeconds > int64(longestWait/time.Second):
		return verbs.WaitAnswer{}, &service.Error{Code: "bad_request", Description: fmt.Sprintf("timeout_seconds %d must be 0 to %d", q.TimeoutSeconds, int64(longestWait/time.Second))}
	}
	over := time.NewTimer(min(time.Duration(q.TimeoutSeconds)*time.Second, mostParked))
	defer over.Stop()
	for {
		wake, forget, err := a.finishes.on(ctx, a.Ledger(), q.ID)
		if err != nil {
			return verbs.WaitAnswer{}, err
		}
		answer, err := a.answerNow(ctx, q.ID)
		if answer.Finished || err != nil && !errors.Is(err, ledger.ErrNotFound) {
			forget()
			return answer, err
		}
		select {
		case <-wake:
			forget()
		case <-over.C:
			forget()
			return a.answerNow(ctx, q.ID) // the command may have ended just before the time elapsed
		case <-ctx.Done():
			forget()
			return answer, ctx.Err()
		}
	}
}

var errNoID = &service.Error{Code: "bad_request", Description: "the request names no command: it needs \"id\""}

// answerNow returns the current state of a command.
func (a answers) answerNow(ctx context.Context, id string) (verbs.WaitAnswer, error) {
	f, err := a.Ledger().Finished(ctx, id)
	return verbs.WaitAnswer{Finished: f != nil && err == nil, Result: f}, err
}

const mostLines = 1000

func (a answers) lines(ctx context.Context, q verbs.LinesRequest) (tables.FinishedPage, error) {
	if q.ID == "" {
		return tables.FinishedPage{}, errNoID
	}
	limit := q.Limit
	if limit == 0 || limit > mostLines {
		limit = mostLines
	}
	return a.Ledger().Operations.FinishedLines(ctx, q.ID, q.After, limit)
}

// finishes wakes requests that wait for a command. A single goroutine reads the journal's new
// rows for all waiting requests, and ends when no request waits.
type finishes struct {
	mu      sync.Mutex
	waiting map[string]map[chan struct{}]bool // the key is the command id
	reading bool
}

// on registers a waiting request for a command. wake receives a value when the command may
// have ended. It receives none for a command that ended before on was called, so the caller
// must check the ledger after on returns.
func (f *finishes) on(ctx context.Context, l *ledger.Ledger, id string) (wake <-chan struct{}, forget func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.reading {
		head, _, err := l.Head(ctx)
		if err != nil {
			return nil, nil, err
		}
		f.reading = true
		go f.read(context.WithoutCancel(ctx), l, head)
	}
	if f.waiting == nil {
		f.waiting = map[string]map[chan struct{}]bool{}
	}
	if f.waiting[id] == nil {
		f.waiting[id] = map[chan struct{}]bool{}
	}
	own := make(chan struct{}, 1)
	f.waiting[id][own] = true
	return own, func() { f.forget(id, own) }, nil
}

func (f *finishes) forget(id string, own chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if delete(f.waiting[id], own); len(f.waiting[id]) == 0 {
		delete(f.waiting, id)
	}
}

// idleReads is how often the reader checks whether any request still waits.
const idleReads = time.Second

// read follows the journal from the row after the given one until no request waits.
func (f *finishes) read(ctx context.Context, l *ledger.Ledger, after int64) {
	tick := time.NewTicker(idleReads)
	defer tick.Stop()
	for {
		rows, err := l.Rows(ctx, after, 1000)
		if err != nil {
			f.stop(true) // the waiting requests read the ledger again and return its error
			return
		}
		for _, r := range rows {
			if after = r.Seq; r.Type == "command.finished" {
				f.wake(r.Operation)
			}
		}
		if len(rows) > 0 {
			continue
		}
		select {
		case <-l.Changed(after):
		case <-tick.C:
			if f.stop(false) {
				return
			}
		}
	}
}

func (f *finishes) wake(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for own := range f.waiting[id] {
		select {
		case own <- struct{}{}:
		default:
		}
	}
}

// stop ends the reader if no request waits. If all is set, it ends the reader in any case and
// wakes every waiting request. It reports whether the reader ends.
func (f *finishes) stop(all bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.waiting) > 0 && !all {
		return false
	}
	f.reading = false
	for _, of := range f.waiting {
		for own := range of {
			select {
			case own <- struct{}{}:
			default:
			}
		}
	}
	return true
}

// answerInbox sends an answer to an inbox. The answer is not stored, so a lost connection may
// lose it.
func (a inboxes) answerInbox(inbox string, data []byte) {
	if err := queue.Answer(a.js(), a.Name, inbox, data); err != nil {
		a.log.WithError(err).Warn("the answer to a command's inbox was not sent")
	}
}
