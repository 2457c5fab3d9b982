// Answers of the first moments, which are sent twice.

package queue

import (
	"sync"
	"time"
)

const (
	// answersAgain is the usual Relay.AnswersAgain: clients look for a lost server every
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

// answerTwice has the answers of the relay's first moments sent once more, until stop.
func (r *Relay) answerTwice() (stop func()) {
	wait := r.AnswersAgain
	if wait == 0 {
		wait = answersAgain
	}
	r.early.begin()
	timer := time.AfterFunc(wait, func() {
		for _, a := range r.early.end() {
			if err := r.queue.Answer(r.account, a.inbox, a.data); err != nil {
				r.log.WithError(err).Warn("an answer was not sent again to its inbox")
				return
			}
		}
	})
	return func() { timer.Stop() }
}
