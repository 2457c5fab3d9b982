package jobs

import (
	"fmt"
	"sync"
	"time"

	"perennial/upstream"
)

// clocksApart is the largest possible difference between two runners' clocks. Each runner's clock
// may differ from the provider's clock by upstream.MaxSkew. A fact from another runner may be
// that far in the future even if this machine's clock is right.
const clocksApart = 2 * upstream.MaxSkew

// clock combines three clocks: the machine's wall clock, its monotonic clock since the start of
// the process, and the provider's clock as read from replies. Each clock gives an age for an
// attempt that may have executed. The largest of these ages counts.
type clock struct {
	now   func() time.Time
	start time.Time // includes the monotonic reading

	mu        sync.Mutex
	highWater time.Time
	server    time.Time // the provider's clock at heardAt
	heardAt   time.Time
}

func newClock(now func() time.Time) *clock { return &clock{now: now, start: now()} }

// highWater is the time of the latest fact in the ledger.
func (c *clock) since(highWater time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.highWater = highWater
}

func (c *clock) Now() time.Time { return c.now().UTC() }

func (c *clock) Hear(server time.Time) {
	if server.IsZero() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.server, c.heardAt = server, c.now()
}

// HearReply records the provider's time from the reply to a POST. It ignores a time that is
// well before the provider's current time, because a replayed reply may carry the time of
// the first reply (trap 56).
func (c *clock) HearReply(server time.Time) {
	c.mu.Lock()
	old := !c.server.IsZero() && server.Before(c.server.Add(c.now().Sub(c.heardAt)-upstream.MaxSkew))
	c.mu.Unlock()
	if !old {
		c.Hear(server)
	}
}

// Provider returns the provider's current time, derived from the last reply. Before the
// first reply it returns the machine's time.
func (c *clock) Provider() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server.IsZero() {
		return c.now().UTC()
	}
	return c.server.Add(c.now().Sub(c.heardAt)).UTC()
}

// Elapsed returns the time that has passed since an instant. If the three clocks differ, it
// returns the longest time. If since is nil, it returns 0.
func (c *clock) Elapsed(since *time.Time) time.Duration {
	if since == nil {
		return 0
	}
	now := c.now()
	monotonic := c.start.Round(0).Add(now.Sub(c.start))
	return max(now.Round(0).Sub(*since), monotonic.Sub(*since), c.Provider().Sub(*since))
}

// Skew returns the machine's time minus the provider's, as measured at the last reply. heard
// is false before the first reply.
func (c *clock) Skew() (skew time.Duration, heard bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.skew(), !c.server.IsZero()
}

func (c *clock) skew() time.Duration { return c.heardAt.Round(0).Sub(c.server) }

// Wrong returns why the machine's clock cannot be trusted. It returns "" if the clock can be
// trusted. While the clock is wrong, no attempt that may have executed is repeated.
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
