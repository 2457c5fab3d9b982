// Delays that the control interface sets (extension).

package sandbox

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// maxLatency bounds one delay.
const maxLatency = 10 * time.Minute

// latencySetting is one entry of POST /latency (extension).
type latencySetting struct {
	filter

	Milliseconds       int64 `json:"milliseconds"`
	JitterMilliseconds int64 `json:"jitter_milliseconds"` // up to that much more, evenly spread
}

func (l *latencySetting) check(s *Server) error {
	most := maxLatency.Milliseconds()
	if l.Milliseconds < 0 || l.Milliseconds > most {
		return invalid("milliseconds", "must be 0 to 600000")
	}
	if l.JitterMilliseconds < 0 || l.JitterMilliseconds > most {
		return invalid("jitter_milliseconds", "must be 0 to 600000")
	}
	return l.filter.check(s)
}

// latencySet holds the settings; of those that match a request the newest
// counts.
type latencySet struct {
	any  atomic.Bool
	mu   sync.Mutex
	list []*latencySetting
}

// set adds a setting in the place of one with the same filter.
func (ls *latencySet) set(l *latencySetting) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.list = slices.DeleteFunc(ls.list, func(old *latencySetting) bool { return old.filter == l.filter })
	ls.list = append(ls.list, l)
	ls.any.Store(true)
}

func (ls *latencySet) clear() {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.list = nil
	ls.any.Store(false)
}

func (ls *latencySet) of(r *request) time.Duration {
	if !ls.any.Load() {
		return 0
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, l := range slices.Backward(ls.list) {
		if l.matches(r) {
			return time.Duration(l.Milliseconds+rand.Int64N(l.JitterMilliseconds+1)) * time.Millisecond
		}
	}
	return 0
}

// hold keeps a request back before anything is done with it. It is carried out
// afterwards even when its client has left, as on a slow network; only the end of the
// sandbox ends it.
func (ls *latencySet) hold(closing <-chan struct{}, r *request) {
	wait := ls.of(r)
	if wait <= 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-closing:
	}
}
