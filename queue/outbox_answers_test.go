package queue

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
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
	outbox := NewOutbox(q.JetStream(), "main", j)
	outbox.AnswersAgain = 10 * time.Millisecond
	runOutbox(t, outbox)
	for range 2 {
		m, err := answers.NextMsgWithContext(within(t))
		check(t, err)
		if string(m.Data) != "the end" {
			t.Errorf("%s", m.Data)
		}
	}
	check(t, outbox.Wait(within(t), 1))
	j.answer("a", inbox, "a later end")
	check(t, outbox.Wait(within(t), 2))
	check(t, q.nc.Flush())
	if n, _, err := answers.Pending(); err != nil || n != 1 {
		t.Errorf("a later end was sent %d times: %v", n, err)
	}
}

// answersOf are an outbox's rows and inbox where rows are on the stream already.
func answersOf(t *testing.T, q *Queue) (*journal, *Outbox, *nats.Subscription) {
	t.Helper()
	inbox := q.nc.NewInbox()
	answers, err := q.nc.SubscribeSync(inbox)
	check(t, err)
	j := newJournal("a", 300)
	for n := 301; n <= 310; n++ {
		j.answer("a", inbox, fmt.Sprint(n))
	}
	j.append("a", 5)
	outbox := NewOutbox(q.JetStream(), "main", j)
	outbox.Before, outbox.Answered = true, 305
	outbox.AnswersAgain = time.Hour
	return j, outbox, answers
}

func TestAnOutboxOfPublishedRowsSendsTheirAnswersAlone(t *testing.T) {
	q := newExternal(t)
	j, outbox, answers := answersOf(t, q)
	inbox := answers.Subject
	runOutbox(t, outbox)
	check(t, outbox.Wait(within(t), 315))
	j.answer("a", inbox, "316")
	check(t, outbox.Wait(within(t), 316))
	for _, want := range []string{"306", "307", "308", "309", "310", "316"} {
		m, err := answers.NextMsgWithContext(within(t))
		check(t, err)
		if string(m.Data) != want {
			t.Errorf("%s, and not %s", m.Data, want)
		}
	}
	check(t, q.nc.Flush())
	if n, _, err := answers.Pending(); n != 0 || err != nil {
		t.Errorf("%d more answers: %v", n, err)
	}
	if last := lastSeq(t, q); last != 0 || outbox.Published() != 316 {
		t.Errorf("the stream ends with %d, published %d", last, outbox.Published())
	}
}

func TestAnOutboxOfPublishedRowsBeginsWhereItsAnswersEnded(t *testing.T) {
	q := newExternal(t)
	outbox := NewOutbox(q.JetStream(), "main", newJournal("a", 7))
	outbox.Before, outbox.Answered = true, 7
	runOutbox(t, outbox)
	check(t, outbox.Wait(within(t), 7))
}

// Answers that were in the client's buffer when the connection was lost go again.
func TestAnswersAreSentWhenTheServerIsBack(t *testing.T) {
	t.Parallel()
	server := startServer(t, t.TempDir())
	q := connect(t, server)
	_, outbox, answers := answersOf(t, q)
	check(t, q.nc.Flush())
	lost := q.nc.StatusChanged(nats.RECONNECTING)
	server.Shutdown()
	receive(t, lost)
	result := runOutbox(t, outbox)
	server.Start()
	check(t, outbox.Wait(within(t), 315))
	if m, err := answers.NextMsgWithContext(within(t)); err != nil || string(m.Data) != "306" {
		t.Errorf("%v %v", m, err)
	}
	select {
	case err := <-result:
		t.Error("the outbox ended:", err)
	default:
	}
}

// What the server has not confirmed to have may be lost with the connection: the row is
// not done.
func TestAnAnswerThatTheServerMayNotHaveIsNotDone(t *testing.T) {
	server := startServer(t, t.TempDir())
	proxy := startMute(t, server.URL())
	q, err := Connect(ConnectConfig{URL: proxy.url, Log: quiet()})
	check(t, err)
	t.Cleanup(q.Close)
	j := newJournal("a", 0)
	j.answer("a", q.nc.NewInbox(), "the end")
	proxy.silent.Store(true)
	ctx, cancel := context.WithTimeout(within(t), 100*time.Millisecond)
	defer cancel()
	if err := publishesFirst(q).answerAll(ctx, 0, j.rows); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}
