// What the runner that has an account answers now. Where it does not answer at once, a page
// shows what it said before, with its time.

package web

import (
	"context"
	"errors"
	"time"

	"perennial/jobs"
	"perennial/schedules"
)

// askWithin bounds what a page waits for of a runner.
const askWithin = 3 * time.Second

// ErrNoAnswer is the error of Account.Ask where the question may have been taken and was
// not answered in time: a change may have been made, or may be yet.
var ErrNoAnswer = errors.New("the runner has not answered in time")

// askNow is a runner's answer to a verb that changes nothing.
func askNow[T any](ctx context.Context, s *Server, a Account, verb string) Made[T] {
	return lately(ctx, s.figures, verb+" "+a.AccountName(), 0, func(ctx context.Context) (answer T, err error) {
		ctx, cancel := context.WithTimeout(ctx, askWithin)
		defer cancel()
		err = a.Ask(ctx, verb, struct{}{}, &answer)
		return answer, err
	})
}

// sweeps is where the schedules of an account stand; problem says why that is not known.
func (s *Server) sweeps(ctx context.Context, a Account) (all []schedules.Status, problem string) {
	made := askNow[[]schedules.Status](ctx, s, a, "sweeps")
	return made.Value, made.problem()
}

// shownAccount is what the overview needs of the verb show.
type shownAccount struct {
	Reconciled jobs.LastReconciliation `json:"reconciled"`
	Provider   *jobs.ProviderRecent    `json:"provider"`
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
