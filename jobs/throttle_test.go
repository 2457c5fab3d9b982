package jobs

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"perennial/jobs/command"
	"perennial/jobs/decide"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/upstream"
)

// hold pauses the account for a moment, as a Retry-After does.
func (h *rig) hold(d time.Duration) (until time.Time) {
	until = h.now().Add(d)
	h.runner.pause(h.t.Context(), decide.Pause{Scope: decide.ScopeAccount, Cause: decide.CauseThrottled, Detail: "slow down", Until: &until})
	return until
}

// A Retry-After delays reads and charges alike.
func TestTrap38EveryReaderWaitsOutARetryAfter(t *testing.T) {
	for name, read := range map[string]func(h *rig) error{
		"a listing":         func(h *rig) error { return h.runner.PassListing(h.t.Context()) },
		"a list, restoring": func(h *rig) error { return h.runner.readLists(h.t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := idleRig(t)
			until := h.hold(2 * time.Second)
			check(t, read(h))
			if now := h.now(); now.Before(until) {
				t.Errorf("it read %s too early", until.Sub(now))
			}
		})
	}
}

// readLists reads a list as after a restore.
func (r *Runner) readLists(ctx context.Context) error {
	return everyPage(ctx, r.link, r.Provider.OrdersPage, func(upstream.OrderSummary) error { return nil })
}

// The precheck makes no request, and no worker waits for it.
func TestTrap38APrecheckIsPostponed(t *testing.T) {
	h := idleRig(t)
	h.hold(time.Hour)
	if _, err := h.runner.current(t.Context(), &job{lane: laneRenewal}, "px_1"); !errors.Is(err, errThrottled) {
		t.Errorf("a proxy: %v", err)
	}
	if _, err := h.runner.pricing.quote(t.Context(), priorityOrder, command.Item{OfferCode: "off_us_dallas", Quantity: 1}, 30); !errors.Is(err, errThrottled) {
		t.Errorf("an offer: %v", err)
	}
}

// A probe is a request too: the Retry-After in its reply pauses every sender.
func TestTrap38AProbeWaitsAndHears(t *testing.T) {
	h := idleRig(t)
	revoked := tables.Pause{Scope: decide.ScopeAccount, Cause: string(upstream.CodeAPIKeyRevoked)}
	h.runner.pauses.put(revoked)
	h.hold(time.Hour)
	if h.runner.probeOne(t.Context(), revoked) {
		t.Error("it made a request inside the Retry-After")
	}
	held, _ := h.runner.pauses.throttling()
	h.runner.pauses.drop(held)
	h.control("/faults", map[string]any{"method": "GET", "path": "/api/v1/wallet", "fault": "code", "code": "rate_limited", "http_status": 429, "retry_after": "60"})
	if !h.runner.probeOne(t.Context(), revoked) || !h.runner.pauses.throttled() {
		t.Error("the Retry-After of a probe's reply does not hold the account")
	}
}

// A start reads the account and the wallet first, but not during a Retry-After, even one from
// an earlier run.
func TestTrap38AStartWaitsOutTheLastRunsRetryAfter(t *testing.T) {
	h := idleRig(t)
	until := h.hold(time.Hour)
	asked := 0
	c := h.runner.Config
	c.Provider = impostor{h.client, func(*upstream.Account) { asked++ }, nil}
	var wait *ThrottledError
	if err := NewRunner(c).Bind(t.Context()); !errors.As(err, &wait) || wait.Until.Before(until.Truncate(time.Millisecond)) || asked != 0 {
		t.Errorf("%v, and it asked %d times", err, asked)
	}
	h.ahead.Store(int64(2 * time.Hour))
	if err := NewRunner(c).Bind(t.Context()); err != nil || asked != 1 {
		t.Errorf("behind it: %v, and it asked %d times", err, asked)
	}
}

// A Retry-After that a start receives also applies to the next start.
func TestTrap38AStartAndTheNextHonourRetryAfter(t *testing.T) {
	h := idleRig(t)
	for _, path := range []string{"/api/v1/wallet", "/api/v1/account"} {
		h.control("/faults", map[string]any{"method": "GET", "path": path, "fault": "code", "code": "rate_limited", "http_status": http.StatusTooManyRequests, "retry_after": "600"})
		begun := h.now()
		for n := range 2 { // the second reads it in the ledger
			var wait *ThrottledError
			if err := NewRunner(h.runner.Config).Bind(t.Context()); !errors.As(err, &wait) || wait.Until.Before(begun.Add(599*time.Second)) {
				t.Errorf("%s, start %d: %v", path, n, err)
			}
		}
		h.ahead.Add(int64(time.Hour))
	}
}

// Seconds, a date, an invalid value, an absurd value, none.
func TestTrap38EverySpellingOfRetryAfterHoldsTheAccount(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for name, c := range map[string]struct {
		header      string
		least, most time.Duration
	}{
		"seconds":  {"120", 119 * time.Second, 3 * time.Minute},
		"a date":   {time.Now().Add(2 * time.Hour).UTC().Format(http.TimeFormat), 119 * time.Minute, 3 * time.Hour},
		"nonsense": {"soon", 5 * time.Second, time.Hour},
		"negative": {"-5", 5 * time.Second, time.Hour},
		"absurd":   {"99999999999999999999", year, 2 * year},
		"none":     {"", 5 * time.Second, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := idleRig(t)
			h.fault(renew, "code", map[string]any{"code": "rate_limited", "http_status": 429, "retry_after": c.header})
			h.start()
			begun := h.now()
			h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1"]}`)
			paused, _ := h.awaitFact("account.paused").(fact.AccountPaused)
			if paused.Until == nil || paused.Until.Before(begun.Add(c.least)) || paused.Until.After(h.now().Add(c.most)) {
				t.Fatalf("told %q at %s, it waits until %v", c.header, begun, paused.Until)
			}
			h.await("keep", fact.StateWaiting)
			if _, blocked := h.runner.pauses.until(lanePoll); !blocked {
				t.Error("polls are not held")
			}
			h.settled(0, 0)
		})
	}
}
