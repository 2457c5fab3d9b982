// Answers to the inboxes of duplicate commands: the outcome, when the command ends.

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

// Bounds on waiting inboxes: in all, per user, and per command of a user. An external
// server does not tell the user of an inbox; there the client counts as the user.
const (
	mostAnswering   = 1000
	mostOfUser      = mostAnswering / 4
	mostOfCommand   = mostAnswering / 20
	answeringLogged = time.Minute // at most one line
	answeringSwept  = time.Second // between two scans for inboxes without a listener
)

// answering holds the places of waiting inboxes. They are lost when the runner stops; a
// client that then repeats its request is answered again.
type answering struct {
	mu     sync.Mutex
	places map[answerPlace]*holder
	lost   int // inboxes without a place since the last log line
	logged time.Time
	swept  time.Time
}

type answerPlace struct{ inbox, command string }

// away holds the places of inboxes whose client has not come back.
const away = "-"

// holder is the owner of a place, and what ends it.
type holder struct {
	user string
	end  context.CancelFunc
}

// inboxes answers the inboxes that commands name.
type inboxes struct{ *account }

// answerEnd sends the outcome of a duplicate command, at once or when it ends. Only a
// waiting inbox takes a place.
func (a inboxes) answerEnd(ctx context.Context, inbox, id string) {
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
		if answer, err := answers(a).wait(ctx, verbs.WaitRequest{ID: id, TimeoutSeconds: int64(longestWait / time.Second)}); err == nil && answer.Finished {
			a.answerFinished(ctx, inbox, id)
		}
	}()
}

// answerFinished answers an inbox if its command has ended.
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

// listeners returns the users who listen on an inbox. An external server does not tell:
// there it returns the client, which may no longer listen.
func (a inboxes) listeners(inbox string) []string {
	if a.host.Embedded == nil {
		return []string{clientOf(inbox)}
	}
	return a.host.Embedded.Listeners(inbox)
}

// nuidPrefix is the length of the inbox prefix that NATS clients draw once per process.
const nuidPrefix = 12

// clientOf returns the common part of a client's inboxes: the user's inbox prefix, as in
// _INBOX.ann.…, or the prefix that its library draws once. A client that draws each
// inbox anew evades this; it limits accidents, not attacks.
func clientOf(inbox string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(inbox, "_INBOX."), ".")
	return first[:min(len(first), nuidPrefix)]
}

// take gives an inbox a place until it leaves, or until it has no listener and others
// need the place. It returns false if the inbox has a place already, or if none is free,
// which is logged.
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

// full reports whether all places, or those of the user or command, are taken.
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
	if x.places[p] == h { // the inbox may have lost this place and have another
		delete(x.places, p)
	}
}
