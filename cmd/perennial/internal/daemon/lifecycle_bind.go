// The wait for the provider to identify the account, when a runner begins to lead.

package daemon

import (
	"context"
	"errors"
	"time"

	"perennial/jobs"
	"perennial/ledger/sleep"
	"perennial/upstream"
)

// bind reads the provider's account, and retries until the provider replies. It returns an
// error only if the ledger belongs to another account, if another account of this process
// uses the provider's account, or if ctx ends.
func (a *lifecycle) bind(ctx context.Context, runner *jobs.Runner) error {
	retry, said := sleep.Doubling(time.Second, time.Minute), ""
	for {
		err := runner.Bind(ctx)
		var mismatch *jobs.BindingError
		a.setUnbound("")
		if err == nil || errors.As(err, &mismatch) || errors.Is(err, errTwoNames) || ctx.Err() != nil {
			return err
		}
		a.setState(bindFailure(err))
		pause := retry.Next()
		if throttled, ok := errors.AsType[*jobs.ThrottledError](err); ok {
			a.setState(err.Error())
			pause = max(pause, min(time.Until(throttled.Until), longestBindWait))
		} else {
			a.setUnbound(bindFailure(err))
		}
		a.hasStarted()
		if why := bindFailure(err); why != said {
			a.log.Warn(why + ": nothing is sent before the provider's account can be read; trying again")
			said = why
		}
		if err := waitOrResumed(ctx, runner, pause); err != nil {
			return err
		}
	}
}

// bindFailure returns a message that distinguishes a provider that refuses the key from a
// provider that does not reply.
func bindFailure(err error) string {
	if refused, ok := errors.AsType[*upstream.Error](err); ok && refused.HTTPStatus/100 == 4 {
		return "the provider refused: " + err.Error() + " (are app_id, the secret and base_url right?)"
	}
	return "the provider does not answer: " + err.Error()
}

// longestBindWait limits the wait before a start asks the provider again, even if the
// provider's Retry-After is longer.
const longestBindWait = 10 * time.Minute

// waitOrResumed waits for a duration, or until an operator ends the Retry-After in force.
func waitOrResumed(ctx context.Context, runner *jobs.Runner, d time.Duration) error {
	end, held := time.Now().Add(d), runner.Throttled()
	for time.Now().Before(end) && runner.Throttled() == held {
		if err := sleep.For(ctx, min(d, time.Second)); err != nil {
			return err
		}
	}
	return nil
}
