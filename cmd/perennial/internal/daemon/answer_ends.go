// Answers to the inboxes of duplicate commands. An inbox gets the outcome when its command
// ends.

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

// Limits on waiting inboxes: total, per user, and per command of one user. An external server
// does not report an inbox's user. There, the limits apply to the client instead of the user.
const (
	maxInboxes          = 1000
	maxInboxesOfUser    = maxInboxes / 4
	maxInboxesOfCommand = maxInboxes / 20
	inboxLogEvery       = time.Minute // shortest time between two log entries
	inboxSweepEvery     = time.Second // shortest time between two scans for inboxes without a listener
)

// waitingInboxes are the inboxes that wait for a command to end. They are lost when the runner
// stops. A client that repeats its request then gets its answer.
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

// inboxWaiter is the goroutine that waits on behalf of an inbox.
type inboxWaiter struct {
	user string
	end  context.CancelFunc
}

// inboxes sends the results of commands to the inboxes that the commands specify.
type inboxes struct{ *account }

// answerEnd sends the outcome of a duplicate command to its inbox, now or when the command
// ends. Only an inbox that must wait counts against the limits.
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

// listeners returns the users that listen on an inbox. An external server does not report
// these users. For such a server, listeners returns the client, which may no longer listen.
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
// prefix, such as ann in _INBOX.ann.…, or the client library's random prefix. A client with a
// new prefix for each inbox evades the limits, which guard against accidents, not attacks.
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
