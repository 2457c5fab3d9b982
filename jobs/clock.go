// The clock by which the age of an attempt is measured: the machine's wall clock, its
// monotonic clock and the provider's, compared.

package jobs

import (
	"fmt"
	"sync"
	"time"

	"perennial/upstream"
)

// clocksApart is how far the clocks of two runners may be from one another, when each may
// be upstream.MaxSkew away from the provider's. The facts of another runner may lie so far
// ahead without this machine's clock having been set back.
const clocksApart = 2 * upstream.MaxSkew

// clock compares three clocks: the machine's, its monotonic one since the
// process began, and the provider's, as its replies show it. The age of an
// attempt that may have executed is the largest that any of them says.
type clock struct {
	now   func() time.Time
	start time.Time // with the monotonic reading

	mu        sync.Mutex
	highWater time.Time
	server    time.Time // the provider's clock …
	heardAt   time.Time // … when it was heard
}

// newClock makes a clock. highWater is the latest instant that the ledger holds.
func newClock(now func() time.Time, highWater time.Time) *clock {
	return &clock{now: now, start: now(), highWater: highWater}
}

// Now is the machine's clock, in UTC.
func (c *clock) Now() time.Time { return c.now().UTC() }

// Hear takes in the provider's timestamp of a reply.
func (c *clock) Hear(server time.Time) {
	if server.IsZero() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.server, c.heardAt = server, c.now()
}

// HearReply takes in the timestamp of a reply to a POST. It may be a replay, which
// may carry the first reply's timestamp (trap 56): one that lies well before the
// provider's time as it is known is ignored.
func (c *clock) HearReply(server time.Time) {
	c.mu.Lock()
	old := !c.server.IsZero() && server.Before(c.server.Add(c.now().Sub(c.heardAt)-upstream.MaxSkew))
	c.mu.Unlock()
	if !old {
		c.Hear(server)
	}
}

// Provider is the provider's time by its replies; before the first reply, the machine's.
func (c *clock) Provider() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server.IsZero() {
		return c.now().UTC()
	}
	return c.server.Add(c.now().Sub(c.heardAt)).UTC()
}

// Elapsed is how long ago an instant was, by the clock that says longest.
func (c *clock) Elapsed(since *time.Time) time.Duration {
	if since == nil {
		return 0
	}
	now := c.now()
	monotonic := c.start.Round(0).Add(now.Sub(c.start))
	return max(now.Round(0).Sub(*since), monotonic.Sub(*since), c.Provider().Sub(*since))
}

// Skew is how far the machine's clock was ahead of the provider's when it was heard last;
// heard is false before.
func (c *clock) Skew() (skew time.Duration, heard bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.skew(), !c.server.IsZero()
}

func (c *clock) skew() time.Duration { return c.heardAt.Round(0).Sub(c.server) }

// Wrong says why the machine's clock cannot be trusted, "" when it can: nothing
// that may have executed is sent again by a wrong clock.
func (c *clock) Wrong() string {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Before(c.highWater.Add(-time.Second)) {
		return fmt.Sprintf("this machine's clock says %s and the ledger's last fact is from %s: set the clock",
			now.UTC().Format(time.RFC3339), c.highWater.UTC().Format(time.RFC3339))
	}
	if now.After(c.highWater) {
		c.highWater = now
	}
	if c.server.IsZero() {
		return ""
	}
	if skew := c.skew(); skew > upstream.MaxSkew || skew < -upstream.MaxSkew {
		return fmt.Sprintf("this machine's clock is %s away from the provider's: set the clock", skew.Round(time.Second))
	}
	return ""
}
