// What the runner that has an account answers now. Where it does not answer at once, a page
// shows what it said before, with its time.

package web

import (
	"context"
	"errors"
	"time"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/schedules"
)

// askWithin bounds what a page waits for of a runner.
const askWithin = 3 * time.Second

// ErrNoAnswer is the error of Account.Ask where the question may have been taken and was
// not answered in time: a change may have been made, or may be yet.
var ErrNoAnswer = errors.New("the runner has not answered in time")

// ErrUnconfirmed is the error of Account.Ask for a change that looks like a slip: it is done
// when the question says that it is meant.
var ErrUnconfirmed = errors.New("this has to be confirmed")

// ask asks a verb of an account's service.
func ask[Q, A any](ctx context.Context, a Account, v verbs.Verb[Q, A], question Q) (answer A, err error) {
	err = a.Ask(ctx, v.Name, question, &answer)
	return answer, err
}

// askNow is a runner's answer to a verb that changes nothing.
func askNow[T any](ctx context.Context, s *Server, a Account, v verbs.Verb[struct{}, T]) Made[T] {
	return figureOf(ctx, s.figures, v.Name+" "+a.AccountName(), 0, answerOf(a, v))
}

// begin asks without waiting for the answer, which askNow returns.
func begin[T any](s *Server, a Account, v verbs.Verb[struct{}, T]) {
	s.figures.ask(v.Name+" "+a.AccountName(), 0, func(ctx context.Context) (any, error) { return answerOf(a, v)(ctx) })
}

func answerOf[T any](a Account, v verbs.Verb[struct{}, T]) func(context.Context) (T, error) {
	return func(ctx context.Context) (T, error) {
		ctx, cancel := context.WithTimeout(ctx, askWithin)
		defer cancel()
		return ask(ctx, a, v, struct{}{})
	}
}

// sweeps is the state of an account's schedules; problem says why that is not known.
func (s *Server) sweeps(ctx context.Context, a Account) (all []schedules.Status, problem string) {
	made := askNow(ctx, s, a, verbs.Sweeps)
	return made.Value, made.problem()
}

// problem says why there is no answer of now; "" where there is one.
func (m Made[T]) problem() string {
	switch {
	case m.Err != "":
		return m.Err
	case !m.Known():
		return "its runner has not answered yet"
	}
	return ""
}
