package jobs

import (
	"context"
	"strings"
	"testing"
	"time"

	"perennial/ledger"
	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/queue/intake"
)

// following makes the rig's ledger follow a stream that accepts everything.
func (h *rig) following() {
	h.t.Helper()
	check(h.t, h.ledger.Close())
	l, err := ledger.Open(context.Background(), ledger.Config{Path: h.path, Clock: h.now, Follows: true})
	check(h.t, err)
	h.t.Cleanup(func() { _ = l.Close() })
	h.ledger = l
	_, err = l.Lead(func(context.Context, []chain.Row) error { return nil })
	check(h.t, err)
	h.bind()
}

// sentBy leaves an attempt without a recorded reply, as by a runner that was killed.
func (h *rig) sentBy(holder, command string) string {
	h.t.Helper()
	planned := h.accepts(command)
	check(h.t, h.ledger.Write(h.t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(fact.RunnerStarted{Version: "test", Holder: holder}, fact.OperationSending{
			Ref: fact.Ref{CommandID: planned.OperationID[:2], OperationID: planned.OperationID}, Attempt: 1, Key: planned.Key,
			Body: `{"duration_days":30,"proxy_ids":["px_1"]}`, SentAt: h.now(), AppID: h.client.AppID(),
		})
	}))
	return planned.OperationID
}

// An attempt without a reply is retried under its key, whichever runner made it. Under a new
// key it is sent only after the other runner's request has expired.
func TestWhatAnotherRunnerSentGoesAgainAtOnce(t *testing.T) {
	for holder, later := range map[string]bool{"test": false, "elsewhere": true} {
		t.Run(holder, func(t *testing.T) {
			t.Parallel()
			h := idleRig(t)
			h.following()
			id := h.sentBy(holder, `{"id":"r1","proxy_ids":["px_1"],"duration_days":30}`)
			h.bind()
			before := h.now()
			check(t, h.runner.recover(t.Context()))
			o, err := h.ledger.Operations.Operation(t.Context(), id)
			check(t, err)
			if o.State != fact.StateWaiting || o.NextAt == nil || o.Ambiguous != 1 {
				t.Fatalf("it is %s, next at %v", o.State, o.NextAt)
			}
			if wait := o.NextAt.Sub(before); wait > time.Minute {
				t.Errorf("it goes again %s later", wait)
			}
			if err := h.runner.refuseEarly(t.Context(), o); (err != nil) != later {
				t.Errorf("a new key at once: %v", err)
			} else if later && !strings.Contains(err.Error(), "after 2") {
				t.Errorf("it does not say when: %v", err)
			}
		})
	}
}

// The runner that took over is killed before it records what it inherited, and is started
// again.
func TestACrashBehindATakeOverForgetsNoInheritance(t *testing.T) {
	h := idleRig(t)
	h.following()
	id := h.sentBy("elsewhere", `{"id":"r1","proxy_ids":["px_1"],"duration_days":30}`)
	h.bind()
	check(t, h.runner.begin(t.Context(), 1))
	began := h.now()
	h.bind()
	check(t, h.runner.recover(t.Context()))
	until, err := h.runner.notBefore(t.Context(), id)
	check(t, err)
	if until.Before(began.Add(inheritWait - time.Second)) {
		t.Errorf("a new key is allowed at %s, and the take-over was at %s", until, began)
	}
}

// A runner that takes over from another reads and lists the proxies again. A runner that
// follows itself does not.
func TestWhatAStandbySawIsOutOfDate(t *testing.T) {
	for last, known := range map[string]bool{"test": true, "elsewhere": false} {
		h := idleRig(t)
		h.following()
		expires := h.now().Add(time.Hour)
		check(t, h.ledger.Write(t.Context(), func(tx *ledger.Tx) error {
			if err := tx.Append(fact.RunnerStarted{Version: "test", Holder: last}); err != nil {
				return err
			}
			if err := tx.KeepListing(tables.Listing{Pass: 1, Finished: h.now()}); err != nil {
				return err
			}
			return tx.Observe(1, tables.Proxy{ProxyID: "px_1", Status: "active", ExpiresAt: &expires, SeenAt: h.now()})
		}))
		check(t, h.runner.begin(t.Context(), 0))
		if _, got, err := h.ledger.Fleet.SeenExpiry(t.Context(), "px_1"); err != nil || got != known {
			t.Errorf("behind %s the expiry is known: %v %v", last, got, err)
		}
		if x, err := h.ledger.Fleet.Listing(t.Context()); err != nil || x.Finished.IsZero() == known {
			t.Errorf("behind %s the listing was finished at %s: %v", last, x.Finished, err)
		}
	}
}

// A listing before runner.started is recorded is marked as out of date with the other runner's
// data, so a schedule would skip its proxies.
func TestNothingIsPlannedBeforeARunHasBegun(t *testing.T) {
	h := idleRig(t)
	h.following()
	check(t, h.runner.PauseByHand(t.Context(), "ada", "maintenance"))
	_, err := h.runner.ResumeByHand(t.Context(), "ada", "done", false)
	check(t, err)
	if h.mayPlan() {
		t.Error("sweeps may plan before the run has begun")
	}
	err = h.runner.beginRun(t.Context())
	check(t, err)
	if started := len(h.facts("runner.started")); started != 1 || !h.mayPlan() {
		t.Errorf("behind %d runner.started sweeps may plan: %t", started, h.mayPlan())
	}
}

// A clock that is slower than the previous leader's does not count as set back, if the
// provider would accept both.
func TestClocksOfRunnersApartDelayNothingElse(t *testing.T) {
	for apart, wrong := range map[time.Duration]bool{clocksApart - time.Minute: false, clocksApart + time.Minute: true} {
		h := idleRig(t)
		h.following()
		h.ahead.Store(int64(apart))
		h.sentBy("elsewhere", `{"id":"r1","proxy_ids":["px_1"],"duration_days":30}`)
		h.ahead.Store(0)
		h.bind()
		if why := h.runner.clock.Wrong(); (why != "") != wrong {
			t.Errorf("behind a holder %s ahead the clock is said to be wrong: %q", apart, why)
		}
	}
}

// A slow clock of the runner that took over does not shorten the ten minutes after the
// failover.
func TestTheClockOfAThirdRunnerAllowsNoNewKeyEarlier(t *testing.T) {
	h := idleRig(t)
	h.following()
	h.ahead.Store(int64(-clocksApart))
	id := h.sentBy("elsewhere", `{"id":"r1","proxy_ids":["px_1"],"duration_days":30}`)
	check(t, h.ledger.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(fact.RunnerStarted{Version: "test", Holder: "third"})
	}))
	h.ahead.Store(0)
	h.bind()
	check(t, h.runner.recover(t.Context()))
	o, err := h.ledger.Operations.Operation(t.Context(), id)
	check(t, err)
	if err := h.runner.refuseEarly(t.Context(), o); err == nil {
		t.Error("a new key was allowed at once")
	}
}

// recover begins a run, and queues what an earlier run left: a send without a recorded reply
// may have executed.
func (r *Runner) recover(ctx context.Context) error {
	if err := r.beginRun(ctx); err != nil {
		return err
	}
	return r.takeUp(ctx, r.until)
}

// A run that is stopped while it begins ends without an error.
func TestAStopDuringTheRecoveryIsNoError(t *testing.T) {
	t.Parallel()
	h := idleRig(t)
	intake, err := intake.Open(t.Context(), h.queue.JetStream(), "main")
	check(t, err)
	defer intake.Close()
	h.runner.Commands = intake
	ctx, stop := context.WithCancel(t.Context())
	stop()
	check(t, h.runner.Run(ctx))
}
