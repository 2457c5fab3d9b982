package jobs

import (
	"strings"
	"testing"
	"time"
	"unsafe"
)

// wall is a machine's clock that a test sets, without a monotonic reading.
type wall struct{ at time.Time }

func (w *wall) now() time.Time { return w.at }

func TestTrap02TheClockThatSaysLongestDecides(t *testing.T) {
	w := &wall{someNoon}
	c := newClock(w.now)
	c.since(someNoon)
	since := someNoon
	if c.Elapsed(nil) != 0 || c.Elapsed(&since) != 0 {
		t.Fatal("nothing has elapsed yet")
	}
	w.at = someNoon.Add(time.Hour)
	if got := c.Elapsed(&since); got != time.Hour {
		t.Errorf("by the machine's clock alone: %s", got)
	}
	c.Hear(someNoon.Add(3 * time.Hour)) // the provider is two hours ahead
	if got := c.Elapsed(&since); got != 3*time.Hour {
		t.Errorf("by the provider's clock: %s", got)
	}
	w.at = w.at.Add(time.Hour)
	if got := c.Elapsed(&since); got != 4*time.Hour {
		t.Errorf("an hour after it was heard: %s", got)
	}
	if !c.Provider().Equal(someNoon.Add(4 * time.Hour)) {
		t.Errorf("the provider's time is %s", c.Provider())
	}
	c.Hear(someNoon.Add(-time.Hour)) // after: the machine's clock says longest
	if got := c.Elapsed(&since); got != 2*time.Hour {
		t.Errorf("with the provider behind: %s", got)
	}
	c.Hear(time.Time{})
	if !c.Provider().Equal(someNoon.Add(-time.Hour)) {
		t.Error("a reply without a timestamp was heard")
	}
}

func TestTrap02AClockSetBackDoesNotLengthenTheWindow(t *testing.T) {
	began, back := time.Now(), time.Duration(0)
	now := began
	c := newClock(func() time.Time { return setBack(now, back) })
	since := began.Round(0)
	now = began.Add(19 * time.Hour) // the monotonic reading too
	if got := c.Elapsed(&since); got != 19*time.Hour {
		t.Errorf("%s", got)
	}
	back = 18 * time.Hour
	if got := now.Round(0).Sub(setBack(now, back).Round(0)); got != back {
		t.Fatalf("the clock was set back by %s", got)
	}
	if got := c.Elapsed(&since); got != 19*time.Hour {
		t.Errorf("by a clock that was set back by %s: %s", back, got)
	}
}

// setBack returns an instant as read after the machine's clock was set back: the wall time
// jumps, and the monotonic reading continues. Package time offers no way to make such an
// instant, so setBack changes the first word of time.Time, which has the seconds from bit 30
// on. The test fails if that layout changes.
func setBack(at time.Time, d time.Duration) time.Time {
	*(*uint64)(unsafe.Pointer(&at)) -= uint64(d/time.Second) << 30
	return at
}

func TestTrap02AWrongClockIsNoticed(t *testing.T) {
	w := &wall{someNoon}
	c := newClock(w.now)
	c.since(someNoon.Add(time.Hour))
	if why := c.Wrong(); !strings.Contains(why, "last fact") {
		t.Errorf("an hour behind the ledger: %q", why)
	}
	w.at = someNoon.Add(time.Hour)
	if why := c.Wrong(); why != "" {
		t.Errorf("a right clock: %s", why)
	}
	w.at = someNoon.Add(2 * time.Hour)
	if why := c.Wrong(); why != "" {
		t.Errorf("a right clock: %s", why)
	}
	w.at = someNoon.Add(90 * time.Minute)
	if c.Wrong() == "" {
		t.Error("set back by half an hour while running, and believed")
	}
	w.at = someNoon.Add(3 * time.Hour)
	for skew, wrong := range map[time.Duration]bool{0: false, 5 * time.Minute: false, -5 * time.Minute: false, 301 * time.Second: true, -301 * time.Second: true} {
		c.Hear(w.at.Add(skew))
		if got := c.Wrong() != ""; got != wrong {
			t.Errorf("%s from the provider: wrong is %t", skew, got)
		}
	}
}

func TestTrap56AReplayedTimestampTellsNoTime(t *testing.T) {
	w := &wall{someNoon}
	c := newClock(w.now)
	c.Hear(someNoon)
	w.at = someNoon.Add(time.Hour)
	c.HearReply(someNoon.Add(time.Minute)) // the reply of an hour ago
	if wrong := c.Wrong(); wrong != "" || !c.Provider().Equal(w.at) {
		t.Errorf("%q, and the provider's time is %s", wrong, c.Provider())
	}
	c.HearReply(w.at.Add(10 * time.Minute)) // the provider's clock may go ahead
	if c.Wrong() == "" {
		t.Error("a reply from the future was not heard")
	}
	c.Hear(someNoon) // a read is answered now
	if c.Wrong() == "" {
		t.Error("a read that shows a clock set back was not heard")
	}
}
