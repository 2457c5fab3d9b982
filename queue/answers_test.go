package queue

import (
	"testing"
	"time"
)

// TestAnAnswerOfTheFirstMomentsIsSentTwice: a client that lost the server with its runner
// is not back when the runner has ended its command.
func TestAnAnswerOfTheFirstMomentsIsSentTwice(t *testing.T) {
	q := newQueue(t)
	inbox := q.nc.NewInbox()
	answers, err := q.nc.SubscribeSync(inbox)
	check(t, err)
	j := newJournal("a", 0)
	j.answer("a", inbox, "the end")
	relay := NewRelay(q, "main", j)
	relay.AnswersAgain = 10 * time.Millisecond
	runRelay(t, relay)
	for range 2 {
		m, err := answers.NextMsgWithContext(within(t))
		check(t, err)
		if string(m.Data) != "the end" {
			t.Errorf("%s", m.Data)
		}
	}
	check(t, relay.Wait(within(t), 1))
	j.answer("a", inbox, "a later end")
	check(t, relay.Wait(within(t), 2))
	check(t, q.nc.Flush())
	if n, _, err := answers.Pending(); err != nil || n != 1 {
		t.Errorf("a later end was sent %d times: %v", n, err)
	}
}
