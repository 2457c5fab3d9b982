// Answers of rows that are on the stream already, and those of the first moments, which
// are sent twice.

package queue

import (
	"context"
	"fmt"
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

// answerRows sends the answers of rows as they appear. It returns only with an error:
// then the rows behind Published are to be answered again.
func (r *Relay) answerRows(ctx context.Context) error {
	done := max(r.Answered, r.Published())
	r.setPublished(done)
	for {
		changed := r.source.Changed(done)
		events, err := r.source.Events(ctx, done, relayChunk)
		if err != nil {
			return fmt.Errorf("read journal after %d: %w", done, err)
		}
		if len(events) == 0 {
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := r.answerAll(ctx, done, events); err != nil {
			return err
		}
		done += uint64(len(events))
		r.setPublished(done)
	}
}

// answerAll sends the answers of the rows behind done, and returns when the server has
// them: what a client has in its buffer is lost with the connection.
func (r *Relay) answerAll(ctx context.Context, done uint64, events []Event) error {
	sent := false
	for n := range events {
		event := &events[n]
		if event.Seq != done+uint64(n)+1 {
			return fmt.Errorf("the journal gave row %d where %d follows", event.Seq, done+uint64(n)+1)
		}
		if event.ReplyTo == "" {
			continue
		}
		if err := r.queue.Answer(r.account, event.ReplyTo, event.Reply); err != nil {
			return fmt.Errorf("answer of journal row %d: %w", event.Seq, err)
		}
		r.early.add(event.ReplyTo, event.Reply)
		sent = true
	}
	if !sent {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	if err := r.queue.nc.FlushWithContext(limited); err != nil {
		return fmt.Errorf("answers of journal rows %d to %d: %w", done+1, done+uint64(len(events)), err)
	}
	return nil
}

// answerTimeout bounds the wait until the server has answers.
const answerTimeout = 5 * time.Second
