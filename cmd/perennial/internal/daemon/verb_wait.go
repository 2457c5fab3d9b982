package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/ledger"
	"perennial/ledger/fact"
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
		if !answer.Finished && (err == nil || errors.Is(err, ledger.ErrNotFound)) {
			select {
			case <-wake:
				continue
			case <-over.C:
				answer, err = a.answerNow(ctx, q.ID) // the command may have ended just before the time elapsed
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
		forget()
		return answer, err
	}
}

var errNoID = &service.Error{Code: "bad_request", Description: "the request names no command: it needs \"id\""}

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

// finishes wakes the requests that wait for a command to end. A single goroutine reads the
// journal's new rows for all of them. The goroutine ends when no request waits.
type finishes struct {
	mu      sync.Mutex
	waiting map[string]*awaited // the key is the command id
	reading bool
}

type awaited struct {
	ended    chan struct{} // closed when the command may have ended
	requests int
}

// on registers a request that waits for a command. The wake channel closes when the command may
// have ended. It stays open for a command that ended before the call, so the caller must check
// the ledger afterwards. The caller must call forget unless wake is closed.
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
		f.waiting = map[string]*awaited{}
	}
	of := f.waiting[id]
	if of == nil {
		of = &awaited{ended: make(chan struct{})}
		f.waiting[id] = of
	}
	of.requests++
	return of.ended, func() { f.forget(id, of) }, nil
}

func (f *finishes) forget(id string, of *awaited) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if of.requests--; of.requests == 0 && f.waiting[id] == of {
		delete(f.waiting, id)
	}
}

// idleReads is how often the reader checks whether any request still waits.
const idleReads = time.Second

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
	if of := f.waiting[id]; of != nil {
		close(of.ended)
		delete(f.waiting, id)
	}
}

// stop ends the reader if no request waits. With all set, it ends the reader even if requests
// wait, and wakes them. It reports whether the reader ends.
func (f *finishes) stop(all bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.waiting) > 0 && !all {
		return false
	}
	f.reading = false
	for _, of := range f.waiting {
		close(of.ended)
	}
	clear(f.waiting)
	return true
}

// answerInbox sends an answer to an inbox. The answer is not stored, so a lost connection may
// lose it.
func (a inboxes) answerInbox(inbox string, data []byte) {
	if err := queue.Answer(a.js(), a.Name, inbox, data); err != nil {
		a.log.WithError(err).Warn("the answer to a command's inbox was not sent")
	}
}

// Limits on waiting inboxes: in total, for one user, and for one command of a user. An external
// server does not report the user of an inbox, so a client counts as a user there.
const (
	maxInboxes          = 1000
	maxInboxesOfUser    = maxInboxes / 4
	maxInboxesOfCommand = maxInboxes / 20
	inboxLogEvery       = time.Minute // shortest time between two log entries
	inboxSweepEvery     = time.Second // shortest time between two scans for inboxes without a listener
)

// waitingInboxes are the inboxes that wait for a command to end. They are lost when the runner
// stops. If a client repeats its request after that, it gets its answer.
type waitingInboxes struct {
	mu     sync.Mutex
	places map[answerPlace]*inboxWaiter
	lost   int // inboxes refused since the last log entry
	logged time.Time
	swept  time.Time
}

type answerPlace struct{ inbox, command string }

// unknownUser is the user of an inbox that currently has no listener.
const unknownUser = "-"

type inboxWaiter struct {
	user string
	end  context.CancelFunc
}

type inboxes struct{ *account }

// answerEnd sends the outcome of a duplicate command to its inbox, now or when the command ends.
// Only inboxes that must wait count against the limits.
func (a inboxes) answerEnd(ctx context.Context, inbox, id string) {
	if a.answerFinished(ctx, inbox, id) {
		return
	}
	p := answerPlace{inbox, id}
	ctx, cancel := context.WithCancel(ctx)
	h := &inboxWaiter{end: cancel}
	if !a.waitingInboxes.take(p, h, a.listeners, a.log) {
		cancel()
		return
	}
	go func() {
		defer a.waitingInboxes.leave(p, h)
		limited, cancel := context.WithTimeout(ctx, longestWait)
		defer cancel()
		for limited.Err() == nil { // one wait ends after mostParked
			answer, err := answers(a).wait(limited, verbs.WaitRequest{ID: id, TimeoutSeconds: int64(mostParked / time.Second)})
			if err != nil {
				return
			}
			if answer.Finished {
				a.answerFinished(ctx, inbox, id)
				return
			}
		}
	}()
}

// answerFinished sends the result to an inbox if its command has ended. It reports whether the
// command has ended.
func (a inboxes) answerFinished(ctx context.Context, inbox, id string) bool {
	answer, err := answers(a).answerNow(ctx, id)
	if err != nil || !answer.Finished {
		return false
	}
	var text bytes.Buffer
	if err := fact.Encode(&text, answer.Result); err == nil {
		a.answerInbox(inbox, text.Bytes())
	}
	return true
}

// listeners returns the users that listen on an inbox. An external server does not report the
// users. In that case, listeners returns the client, even if the client no longer listens.
func (a inboxes) listeners(inbox string) []string {
	if a.host.Embedded == nil {
		return []string{clientOf(inbox)}
	}
	return a.host.Embedded.Listeners(inbox)
}

// nuidPrefix is the length of the random inbox prefix that a NATS client chooses once per
// process.
const nuidPrefix = 12

// clientOf returns the part that all inboxes of a client have in common. It is the user's inbox
// prefix, such as ann in _INBOX.ann.…, or the client library's random prefix. A client that
// chooses a new prefix for each inbox evades the limits. The limits guard against accidents, not
// attacks.
func clientOf(inbox string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(inbox, "_INBOX."), ".")
	return first[:min(len(first), nuidPrefix)]
}

// take registers an inbox as waiting. If a limit is reached, it first removes inboxes that no
// longer have a listener. It returns false if the inbox already waits, or if a limit is still
// reached, which is logged.
func (x *waitingInboxes) take(p answerPlace, h *inboxWaiter, listeners func(inbox string) []string, log *logrus.Entry) bool {
	users := listeners(p.inbox)
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.places == nil {
		x.places = map[answerPlace]*inboxWaiter{}
	}
	if _, has := x.places[p]; has {
		return false
	}
	if len(users) == 0 {
		users = []string{unknownUser}
	}
	room := func() bool {
		at := slices.IndexFunc(users, func(user string) bool { return !x.full(user, p.command) })
		if at >= 0 {
			h.user = users[at]
			x.places[p] = h
		}
		return at >= 0
	}
	if room() {
		return true
	}
	now := time.Now()
	if now.Sub(x.swept) >= inboxSweepEvery {
		x.swept = now
		for other, of := range x.places {
			if len(listeners(other.inbox)) == 0 {
				of.end()
				delete(x.places, other)
			}
		}
		if room() {
			return true
		}
	}
	if x.lost++; now.Sub(x.logged) >= inboxLogEvery {
		log.WithField("user", users[0]).WithField("command_id", p.command).
			Warnf("%d inboxes are not answered, for too many of the user or the command wait: ask with the verb wait", x.lost)
		x.lost, x.logged = 0, now
	}
	return false
}

// full reports whether a limit is reached: the limit for all inboxes, for this user or for
// this command.
func (x *waitingInboxes) full(user, command string) bool {
	own, same := 0, 0
	for other, of := range x.places {
		if of.user == user {
			if own++; other.command == command {
				same++
			}
		}
	}
	return len(x.places) >= maxInboxes || same >= maxInboxesOfCommand || user != "" && own >= maxInboxesOfUser
}

func (x *waitingInboxes) leave(p answerPlace, h *inboxWaiter) {
	h.end()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.places[p] == h { // false if the inbox was removed and registered again
		delete(x.places, p)
	}
}
