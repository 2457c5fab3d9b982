package jobs

import (
	"context"
	"errors"
	"testing"
	"time"

	"perennial/jobs/decide"
	"perennial/ledger/tables"
	"perennial/upstream"
)

// throttle starts a Retry-After of this duration and returns its end.
func (h *rig) throttle(d time.Duration) time.Time {
	h.t.Helper()
	until := h.now().Add(d)
	check(h.t, h.runner.pause(h.t.Context(), decide.Pause{Scope: decide.ScopeAccount, Cause: decide.CauseThrottled, Detail: "test", Until: &until}))
	return until.Truncate(time.Microsecond)
}

// stored returns the end of the account's Retry-After in the ledger.
func (h *rig) stored() time.Time {
	h.t.Helper()
	all, err := h.ledger.Operations.Pauses(h.t.Context())
	check(h.t, err)
	for _, x := range all {
		if x.Cause == decide.CauseThrottled && x.Until != nil {
			return *x.Until
		}
	}
	return time.Time{}
}

// mustHold fails the test unless the pause lasts until end, in memory and in the ledger.
func (h *rig) mustHold(what string, end time.Time) {
	h.t.Helper()
	until, _ := h.runner.pauses.throttledUntil()
	if stored := h.stored(); !until.Equal(end) || !stored.Equal(end) {
		h.t.Errorf("%s: held until %s, in the ledger until %s, want %s", what, until, stored, end.UTC())
	}
}

func TestTrap38APauseThatGrowsIsNotCutShort(t *testing.T) {
	h := idleRig(t)
	h.throttle(-10 * time.Millisecond)
	ending := h.runner.pauses.list() // as probe saw it …
	long := h.throttle(time.Hour)    // … and a worker is asked to wait an hour
	for _, x := range ending {
		h.runner.probeOne(t.Context(), x)
	}
	h.mustHold("the end of the pause before it", long)
}

func TestTrap38OfTwoRetryAftersTheLongerHolds(t *testing.T) {
	t.Parallel()
	h := idleRig(t)
	for range 200 {
		now := h.now()
		short, long := now.Add(time.Minute), now.Add(time.Hour)
		done := make(chan error)
		for _, until := range []time.Time{long, short} {
			go func() {
				done <- h.runner.pause(context.Background(), decide.Pause{Scope: decide.ScopeAccount, Cause: decide.CauseThrottled, Detail: "test", Until: &until})
			}()
		}
		check(t, errors.Join(<-done, <-done))
		h.mustHold("two at once", long.Truncate(time.Microsecond))
		h.resumes("ada", "next")
	}
}

// The probe itself gets a Retry-After while the earlier pause ends.
func TestTrap38AProbesOwnRetryAfterHolds(t *testing.T) {
	h := idleRig(t)
	h.control("/faults", map[string]any{"method": "GET", "path": "/api/v1/wallet", "fault": "code", "code": "rate_limited", "http_status": 429, "retry_after": "3600"})
	check(t, h.runner.pause(t.Context(), decide.Pause{Scope: decide.ScopeAccount, Cause: string(upstream.CodeAPIKeyRevoked), Detail: "test"}))
	h.throttle(-time.Second)
	var revoked, over tables.Pause
	for _, x := range h.runner.pauses.list() {
		if x.Until == nil {
			revoked = x
		} else {
			over = x
		}
	}
	h.runner.probeOne(t.Context(), revoked)
	h.runner.probeOne(t.Context(), over)
	if until, held := h.runner.pauses.throttledUntil(); !held || until.Before(h.now().Add(50*time.Minute)) {
		t.Errorf("3600 seconds were asked for; held %t until %s", held, until)
	}
}

func TestTrap48APersonEndsAnyPause(t *testing.T) {
	h := idleRig(t)
	h.throttle(56 * 365 * 24 * time.Hour) // a Unix time, taken for seconds
	if n, err := h.runner.ResumeByHand(t.Context(), "ada", "it is a Unix time", false); n != 1 || err != nil {
		t.Fatalf("%d pauses ended: %v", n, err)
	}
	if h.runner.Throttled() || !h.stored().IsZero() {
		t.Error("the account still waits")
	}
}

func TestTrap48OverAnHourTheRunnerAsksAgainByARead(t *testing.T) {
	h := idleRig(t)
	h.oneClock()
	h.bind(func(c *Config) { c.Provider = h.client })
	until := h.throttle(300 * 24 * time.Hour)
	x, _ := h.runner.pauses.throttling()
	h.runner.probeOne(t.Context(), x)
	h.mustHold("within the hour", until)
	h.later(61 * time.Minute)
	h.control("/faults", map[string]any{"method": "GET", "path": "/api/v1/wallet", "fault": "error_before"})
	h.runner.probeOne(t.Context(), x)
	h.mustHold("while the read fails", until)
	h.runner.probeOne(t.Context(), x)
	h.mustHold("an hour is to pass again", until)
	h.later(122 * time.Minute)
	h.runner.probeOne(t.Context(), x)
	if h.runner.Throttled() || !h.stored().IsZero() {
		t.Error("the provider answers, and the account still waits")
	}
}

func TestTrap48AStartAsksAgainOnceTheHourIsOver(t *testing.T) {
	h := idleRig(t)
	h.oneClock()
	h.throttle(300 * 24 * time.Hour)
	again := func() error {
		next := NewRunner(h.runner.Config)
		next.Provider = h.client
		return next.Bind(t.Context())
	}
	var wait *ThrottledError
	if err := again(); !errors.As(err, &wait) {
		t.Fatalf("within the hour a start says %v", err)
	}
	h.later(61 * time.Minute)
	check(t, again())
	if !h.stored().IsZero() {
		t.Error("the provider answered and the pause is still in the ledger")
	}
}

func TestAResumeThatCannotBeRecordedIsNoChange(t *testing.T) {
	h := idleRig(t)
	check(t, h.runner.PauseByHand(t.Context(), "ada", "maintenance"))
	check(t, h.ledger.Close())
	if n, err := h.runner.ResumeByHand(t.Context(), "ada", "done", false); n != 0 || err == nil {
		t.Errorf("%d pauses ended, error %v", n, err)
	}
	if !h.runner.pauses.blocked(laneOrder) {
		t.Error("the account works although nothing says so")
	}
}
