package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"perennial/cmd/perennial/internal/daemon/life"
	"perennial/jobs"
	"perennial/ledger/sleep"
	"perennial/queue"
	"perennial/queue/intake"
	"perennial/queue/lease"
	"perennial/queue/outbox"
)

// With a fake clock, the account starts again soon after each outage, from a second to ten minutes.
// A phase may fail immediately, wait for its timeout, or work for a moment.
func TestAnOutageOfAnyLengthIsWaitedOut(t *testing.T) {
	t.Parallel()
	for _, outage := range []time.Duration{time.Second, 12 * time.Second, 13 * time.Second, time.Minute, 10 * time.Minute} {
		for _, held := range []time.Duration{0, time.Second, streamsTimeout, 2 * waitMost} {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				began, tries, back := time.Now(), 0, 0
				err := phases(ctx, func(ctx context.Context, p life.Phase) error {
					if p != life.Closed {
						t.Fatalf("it is %s", p)
					}
					if tries++; time.Since(began) < outage {
						_ = sleep.For(ctx, held)
						return nats.ErrNoServers
					}
					stop()
					return nil
				}, func(next life.Arrow, err error) {
					if !next.Waits {
						return
					}
					if back++; !errors.Is(err, nats.ErrNoServers) {
						t.Errorf("set back by %v", err)
					}
				})
				late := time.Since(began) - outage
				if err != nil || tries != back+1 || late > held+waitMost*3/2 {
					t.Errorf("an outage of %s: %v, %d tries, %d times set back, started %s after it", outage, err, tries, back, late)
				}
				if most := 10 + int(outage/(waitMost/2)); tries > most {
					t.Errorf("an outage of %s: tried %d times", outage, tries)
				}
			})
		}
	}
}

// The account retries after every other error.
func TestOnlyABindingOrAHistoryEndsAnAccount(t *testing.T) {
	t.Parallel()
	for _, err := range []error{&jobs.BindingError{}, &outbox.DivergedError{}, errTwoNames} {
		if phaseOutcome(t.Context(), life.Leading, fmt.Errorf("serve: %w", err)) != life.Refused {
			t.Errorf("%T is waited out", err)
		}
	}
	for _, err := range []error{
		nil, errLeaseLost, nats.ErrNoServers, nats.ErrAuthorization, nats.ErrNoResponders, nats.ErrTimeout, context.DeadlineExceeded, io.EOF,
		jetstream.ErrStreamNotFound, jetstream.ErrKeyExists, queue.ErrNoAccount, intake.ErrIntakeClosed, &queue.StreamError{}, &lease.HeldError{},
	} {
		if phaseOutcome(t.Context(), life.Leading, err) == life.Refused {
			t.Errorf("%v ends an account", err)
		}
	}
}
