package outbox

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"perennial/queue"
	"perennial/queue/natstest"
	"perennial/queue/natstest/jstest"
)

// A client that lost the server with its runner may not be back when the runner ends its
// command.
func TestAnAnswerOfTheFirstMomentsIsSentTwice(t *testing.T) {
	js := newMain(t)
	inbox := js.Conn().NewInbox()
	answers, err := js.Conn().SubscribeSync(inbox)
	natstest.Check(t, err)
	j := newJournal("a", 0)
	j.answer("a", inbox, "the end")
	outbox := New(js, "main", j)
	outbox.AnswersAgain = 10 * time.Millisecond
	runOutbox(t, outbox)
	for range 2 {
		m, err := answers.NextMsgWithContext(natstest.Within(t))
		natstest.Check(t, err)
		if string(m.Data) != "the end" {
			t.Errorf("%s", m.Data)
		}
	}
	natstest.Check(t, outbox.Wait(natstest.Within(t), 1))
	j.answer("a", inbox, "a later end")
	natstest.Check(t, outbox.Wait(natstest.Within(t), 2))
	natstest.Check(t, js.Conn().Flush())
	if n, _, err := answers.Pending(); err != nil || n != 1 {
		t.Errorf("a later end was sent %d times: %v", n, err)
	}
}

// answersOf returns an outbox whose rows are already on the stream, with its journal and an
// inbox.
func answersOf(t *testing.T, js *queue.JetStream) (*journal, *Outbox, *nats.Subscription) {
	t.Helper()
	inbox := js.Conn().NewInbox()
	answers, err := js.Conn().SubscribeSync(inbox)
	natstest.Check(t, err)
	j := newJournal("a", 300)
	for n := 301; n <= 310; n++ {
		j.answer("a", inbox, fmt.Sprint(n))
	}
	j.append("a", 5)
	outbox := New(js, "main", j)
	outbox.Before, outbox.Answered = true, 305
	outbox.AnswersAgain = time.Hour
	return j, outbox, answers
}

func TestAnOutboxOfPublishedRowsSendsTheirAnswersAlone(t *testing.T) {
	js := newExternal(t)
	j, outbox, answers := answersOf(t, js)
	inbox := answers.Subject
	runOutbox(t, outbox)
	natstest.Check(t, outbox.Wait(natstest.Within(t), 315))
	j.answer("a", inbox, "316")
	natstest.Check(t, outbox.Wait(natstest.Within(t), 316))
	for _, want := range []string{"306", "307", "308", "309", "310", "316"} {
		m, err := answers.NextMsgWithContext(natstest.Within(t))
		natstest.Check(t, err)
		if string(m.Data) != want {
			t.Errorf("%s, and not %s", m.Data, want)
		}
	}
	natstest.Check(t, js.Conn().Flush())
	if n, _, err := answers.Pending(); n != 0 || err != nil {
		t.Errorf("%d more answers: %v", n, err)
	}
	if last := lastSeq(t, js); last != 0 || outbox.Published() != 316 {
		t.Errorf("the stream ends with %d, published %d", last, outbox.Published())
	}
}

func TestAnOutboxOfPublishedRowsBeginsWhereItsAnswersEnded(t *testing.T) {
	js := newExternal(t)
	outbox := New(js, "main", newJournal("a", 7))
	outbox.Before, outbox.Answered = true, 7
	runOutbox(t, outbox)
	natstest.Check(t, outbox.Wait(natstest.Within(t), 7))
}

// Answers in the client's buffer when the connection was lost are sent again.
func TestAnswersAreSentWhenTheServerIsBack(t *testing.T) {
	t.Parallel()
	server := natstest.Serve(t, t.TempDir())
	js := jstest.Connect(t, server.URL())
	_, outbox, answers := answersOf(t, js)
	natstest.Check(t, js.Conn().Flush())
	lost := js.Conn().StatusChanged(nats.RECONNECTING)
	server.Shutdown()
	natstest.Receive(t, lost)
	result := runOutbox(t, outbox)
	server.Start()
	natstest.Check(t, outbox.Wait(natstest.Within(t), 315))
	if m, err := answers.NextMsgWithContext(natstest.Within(t)); err != nil || string(m.Data) != "306" {
		t.Errorf("%v %v", m, err)
	}
	select {
	case err := <-result:
		t.Error("the outbox ended:", err)
	default:
	}
}

// An answer that the server has not confirmed may be lost with the connection, so the row
// is not done.
func TestAnAnswerThatTheServerMayNotHaveIsNotDone(t *testing.T) {
	server := natstest.Serve(t, t.TempDir())
	proxy := natstest.StartMute(t, server.URL())
	js := jstest.Connect(t, proxy.URL)
	j := newJournal("a", 0)
	j.answer("a", js.Conn().NewInbox(), "the end")
	proxy.Silent.Store(true)
	ctx, cancel := context.WithTimeout(natstest.Within(t), 100*time.Millisecond)
	defer cancel()
	if err := publishesFirst(js).answerAll(ctx, 0, j.rows); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}
