// This file sends the results of commands to their inboxes. Results of the first seconds
// after the start are sent twice.

package outbox

import (
	"context"
	"fmt"
	"sync"
	"time"

	"perennial/queue"
)

const (
	// answersAgain is the default of Outbox.AnswersAgain. It exceeds the interval at which
	// clients try to reconnect to a lost server, about two seconds.
	answersAgain = 5 * time.Second
	// mostEarly limits how many results are kept to be sent again.
	mostEarly = 10_000
)

// earlyAnswers keeps the results that were sent when some clients may not have reconnected
// yet.
type earlyAnswers struct {
	mu   sync.Mutex
	open bool
	sent []earlyAnswer
}

type earlyAnswer struct {
	inbox string
	data  []byte
}

// begin starts keeping results.
func (e *earlyAnswers) begin() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.open = true
}

func (e *earlyAnswers) add(inbox string, data []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.open && len(e.sent) < mostEarly {
		e.sent = append(e.sent, earlyAnswer{inbox, data})
	}
}

// end stops keeping results and returns those that were kept.
func (e *earlyAnswers) end() []earlyAnswer {
	e.mu.Lock()
	defer e.mu.Unlock()
	sent := e.sent
	e.open, e.sent = false, nil
	return sent
}

// answerTwice sends the early results a second time after a delay, unless it is stopped.
func (o *Outbox) answerTwice() (stop func()) {
	wait := o.AnswersAgain
	if wait == 0 {
		wait = answersAgain
	}
	o.early.begin()
	timer := time.AfterFunc(wait, func() {
		for _, a := range o.early.end() {
			if err := queue.Answer(o.js, o.account, a.inbox, a.data); err != nil {
				o.log.WithError(err).Warn("an answer was not sent again to its inbox")
				return
			}
		}
	})
	return func() { timer.Stop() }
}

// answerAll sends the results of the rows after done. If no publication follows, it waits
// until the server has them, because messages in the client's buffer are lost if the
// connection is lost.
func (o *Outbox) answerAll(ctx context.Context, done uint64, events []Event) error {
	sent := false
	for n := range events {
		event := &events[n]
		if event.Seq != done+uint64(n)+1 {
			return fmt.Errorf("the journal gave row %d where %d follows", event.Seq, done+uint64(n)+1)
		}
		if event.ReplyTo == "" {
			continue
		}
		if err := queue.Answer(o.js, o.account, event.ReplyTo, event.Reply); err != nil {
			return fmt.Errorf("answer of journal row %d: %w", event.Seq, err)
		}
		o.early.add(event.ReplyTo, event.Reply)
		sent = true
	}
	if !sent || !o.Before {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	if err := o.js.Conn().FlushWithContext(limited); err != nil {
		return fmt.Errorf("answers of journal rows %d to %d: %w", done+1, done+uint64(len(events)), err)
	}
	return nil
}

// answerTimeout limits the wait until the server has the results.
const answerTimeout = 5 * time.Second
