// Answers from the runner that leads an account. If the runner does not answer quickly, a page
// shows the previous answer with its time.

package web

import (
	"context"
	"errors"
	"time"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/schedules"
)

// askWithin limits a page's wait for a runner's answer.
const askWithin = 3 * time.Second

// ErrNoAnswer means that Account.Ask got no answer in time. A requested change may have been
// made, or may still be made.
var ErrNoAnswer = errors.New("the runner has not answered in time")

// ErrUnconfirmed means that Account.Ask was refused because the change looks like a mistake. To
// make the change, repeat the request with a confirmation.
var ErrUnconfirmed = errors.New("this has to be confirmed")

// ask sends a service request to an account and returns the answer.
func ask[Q, A any](ctx context.Context, a Account, v verbs.Verb[Q, A], question Q) (answer A, err error) {
	err = a.Ask(ctx, v.Name, question, &answer)
	return answer, err
}

// askNow returns a runner's answer to a service request that changes nothing. The answer is
// cached by service request and account, not by question, so all pages must ask the same
// question.
func askNow[Q, T any](ctx context.Context, f *figures, a Account, v verbs.Verb[Q, T], question Q) Made[T] {
	return askAgain(ctx, f, a, v, question, 0)
}

// askAgain is like askNow, but fresh limits the answer's age, as in figureOf.
func askAgain[Q, T any](ctx context.Context, f *figures, a Account, v verbs.Verb[Q, T], question Q, fresh time.Duration) Made[T] {
	return waitFor[T](ctx, f, beginAgain(f, a, v, question, fresh), fresh)
}

// begin sends a service request without waiting. A later askNow returns its answer.
func begin[Q, T any](f *figures, a Account, v verbs.Verb[Q, T], question Q) {
	beginAgain(f, a, v, question, 0)
}

func beginAgain[Q, T any](f *figures, a Account, v verbs.Verb[Q, T], question Q, fresh time.Duration) *figure {
	return f.askReply(figureKey{a.AccountName(), v.Name}, fresh, func(ctx context.Context) (any, error) { return answerOf(a, v, question)(ctx) })
}

func answerOf[Q, T any](a Account, v verbs.Verb[Q, T], question Q) func(context.Context) (T, error) {
	return func(ctx context.Context) (T, error) {
		ctx, cancel := context.WithTimeout(ctx, askWithin)
		defer cancel()
		return ask(ctx, a, v, question)
	}
}

// sweeps returns the status of an account's schedules, with the plans and pauses that the
// ledger has now. problem says why the other values are unknown or outdated. It is "" if
// they are current.
func (s *insight) sweeps(ctx context.Context, a Account) (all []schedules.Status, problem string, err error) {
	made := askNow(ctx, s.figures, a, verbs.Sweeps, struct{}{})
	all, outdated, err := refresh(ctx, a, s.Clock(), made.Value, made.Known())
	if err == nil && outdated && made.problem() == "" {
		made = askAgain(ctx, s.figures, a, verbs.Sweeps, struct{}{}, -1)
		all, _, err = refresh(ctx, a, s.Clock(), made.Value, made.Known())
	}
	return all, made.problem(), err
}

// problem returns why there is no current answer, or "" if there is one.
func (m Made[T]) problem() string {
	switch {
	case m.Err != "":
		return m.Err
	case !m.Known():
		return "its runner has not answered yet"
	}
	return ""
}
