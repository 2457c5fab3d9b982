// Answers to inboxes of commands that had come before: what they came to, when they end.

package daemon

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/ledger/fact"
)

// The inboxes that wait at once: in all, of one user, and for one command of it. An outer
// server does not tell whose an inbox is: there the client counts as the user.
const (
	mostAnswering   = 1000
	mostOfUser      = mostAnswering / 4
	mostOfCommand   = mostAnswering / 20
	answeringLogged = time.Minute // at most one line
	answeringSwept  = time.Second // between two scans for inboxes without a listener
)

// answering are the places of inboxes that wait. They are forgotten with the runner: a
// client that asks again is answered again.
type answering struct {
	mu     sync.Mutex
	places map[answerPlace]*holder
	lost   int // inboxes without a place since the last line
	logged time.Time
	swept  time.Time
}

type answerPlace struct{ inbox, command string }

// away has the places of inboxes whose client has not come back yet, or never does.
const away = "-"

// holder is whose a place is, and what ends it.
type holder struct {
	user string
	end  context.CancelFunc
}

// answerEnd sends what a command that had come before came to, at once or when it ends.
// Only an inbox that waits takes a place.
func (a *account) answerEnd(ctx context.Context, inbox, id string) {
	if a.answerFinished(ctx, inbox, id) {
		return
	}
	p := answerPlace{inbox, id}
	ctx, cancel := context.WithCancel(ctx)
	h := &holder{end: cancel}
	if !a.answering.take(p, h, a.listeners, a.log) {
		cancel()
		return
	}
	go func() {
		defer a.answering.leave(p, h)
		if answer, err := (answers{a}).wait(ctx, verbs.WaitRequest{ID: id, TimeoutSeconds: int64(longestWait / time.Second)}); err == nil && answer.Finished {
			a.answerFinished(ctx, inbox, id)
		}
	}()
}

// answerFinished answers an inbox if its command has ended.
func (a *account) answerFinished(ctx context.Context, inbox, id string) bool {
	answer, err := answers{a}.answerNow(ctx, id)
	if err != nil || !answer.Finished {
		return false
	}
	var text bytes.Buffer
	if err := fact.Encode(&text, answer.Result); err == nil {
		a.answerInbox(inbox, text.Bytes())
	}
	return true
}

// listeners are the users who wait at an inbox. An outer server does not tell: there it is
// the client, and whether it still listens is not known.
func (a *account) listeners(inbox string) []string {
	if a.host.Embedded == nil {
		return []string{clientOf(inbox)}
	}
	return a.host.Embedded.Listeners(inbox)
}

// nuidPrefix is how many characters of its inboxes the clients of NATS draw once a process.
const nuidPrefix = 12

// clientOf is what the inboxes of one client have in common: the user's inbox prefix, as in
// _INBOX.ann.…, or the beginning that its library draws once. A client that draws each inbox
// again escapes it, so that it keeps accidents apart and no attacks.
func clientOf(inbox string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(inbox, "_INBOX."), ".")
	return first[:min(len(first), nuidPrefix)]
}

// take gives an inbox a place until it leaves, or no client listens to it and others need
// its place. It is false where it has one, and where there is none, which is logged.
func (x *answering) take(p answerPlace, h *holder, listeners func(inbox string) []string, log *logrus.Entry) bool {
	users := listeners(p.inbox)
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.places == nil {
		x.places = map[answerPlace]*holder{}
	}
	if _, has := x.places[p]; has {
		return false
	}
	if len(users) == 0 {
		users = []string{away}
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
	if now.Sub(x.swept) >= answeringSwept {
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
	if x.lost++; now.Sub(x.logged) >= answeringLogged {
		log.WithField("user", users[0]).WithField("command_id", p.command).
			Warnf("%d inboxes are not answered, for too many of the user or the command wait: ask with the verb wait", x.lost)
		x.lost, x.logged = 0, now
	}
	return false
}

// full reports whether all, a user or its command has as many places as it may have.
func (x *answering) full(user, command string) bool {
	own, same := 0, 0
	for other, of := range x.places {
		if of.user == user {
			if own++; other.command == command {
				same++
			}
		}
	}
	return len(x.places) >= mostAnswering || same >= mostOfCommand || user != "" && own >= mostOfUser
}

func (x *answering) leave(p answerPlace, h *holder) {
	h.end()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.places[p] == h { // the inbox may have lost its place, and have another one
		delete(x.places, p)
	}
}
