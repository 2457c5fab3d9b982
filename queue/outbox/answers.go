// Answers of rows to the inboxes of their commands; those of the first moments are sent
// twice.

package outbox

import (
	"context"
	"fmt"
	"sync"
	"time"

	"perennial/queue"
)

const (
	// answersAgain is the usual Outbox.AnswersAgain: clients look for a lost server every
	// two seconds or so.
	answersAgain = 5 * time.Second
	// mostEarly bounds the answers that are kept to be sent again.
	mostEarly = 10_000
)

// earlyAnswers are those that were sent while clients may not have been back.
type earlyAnswers struct {
	mu   sync.Mutex
	open bool
	sent []earlyAnswer
}

type earlyAnswer struct {
	inbox string
	data  []byte
}

// begin keeps answers from now on.
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

// end returns what was kept, and keeps no more.
func (e *earlyAnswers) end() []earlyAnswer {
	e.mu.Lock()
	defer e.mu.Unlock()
	sent := e.sent
	e.open, e.sent = false, nil
	return sent
}

// answerTwice has the answers of the outbox's first moments sent once more, until stop.
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

// answerAll sends the answers of the rows after done. Where nothing is published after
// them, it returns when the server has them: what a client has in its buffer is lost with
// the connection.
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

// answerTimeout bounds the wait until the server has answers.
const answerTimeout = 5 * time.Second
