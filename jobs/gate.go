// The rate gate: every request of an App ID waits here for its turn, by priority.

package jobs

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// gatePriority is the order in which the rate gate serves.
type gatePriority int

// The gate's order (design: the account's one rate gate).
const (
	priorityAmbiguous gatePriority = iota // may have executed: the window is running
	priorityRenewal
	priorityOrder
	priorityPoll
	priorityListing
)

// rateGate is the one place through which every request of an App ID goes, so that
// commands, polls and listings share one rate. It knows nothing of pauses.
type rateGate struct {
	limiter *rate.Limiter

	mu      sync.Mutex
	waiting inOrder[*waiter]
	order   int64
	pumping bool
	spare   int // tokens that were given back
	passed  int // turns in a row that went past the read that has waited longest
}

type waiter struct {
	priority gatePriority
	order    int64
	ready    chan struct{}
	gone     bool
}

// newRateGate makes a gate that lets perSecond requests pass a second.
func newRateGate(perSecond float64) *rateGate {
	return &rateGate{limiter: rate.NewLimiter(rate.Limit(perSecond), max(1, int(perSecond)))}
}

// TryPass goes through only if no caller waits and a token is there.
func (g *rateGate) TryPass() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.waiting) == 0 && !g.pumping && g.take()
}

// GiveBack returns the token of a TryPass whose request is not made.
func (g *rateGate) GiveBack() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.spare++
}

// take takes a token if one is there. One that was given back counts as long as
// the limiter has room for it, so that there are never more than its burst.
func (g *rateGate) take() bool {
	if g.takeSpare() {
		return true
	}
	return g.limiter.Allow()
}

func (g *rateGate) takeSpare() bool {
	if g.spare == 0 {
		return false
	}
	g.spare = max(0, min(g.spare, g.limiter.Burst()-int(g.limiter.Tokens())))
	if g.spare == 0 {
		return false
	}
	g.spare--
	return true
}

// readEvery is the share of reads: where others would take every turn, each so many is that
// of the read that has waited longest. Without listings no slot fires, and polls come before
// them.
const readEvery = 4

// Pass waits for a turn: by priority, then in order of arrival; polls and listings have
// their share.
func (g *rateGate) Pass(ctx context.Context, p gatePriority) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	g.mu.Lock()
	if len(g.waiting) == 0 && !g.pumping && g.take() {
		g.mu.Unlock()
		return nil
	}
	g.order++
	w := &waiter{priority: p, order: g.order, ready: make(chan struct{})}
	heap.Push(&g.waiting, w)
	if !g.pumping {
		g.pumping = true
		go g.pump()
	}
	g.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
		g.mu.Lock()
		w.gone = true
		g.mu.Unlock()
		return ctx.Err()
	}
}

// pump hands out one token at a time, each to the caller that is first by then. It ends
// when no caller waits, so an idle gate holds no goroutine.
func (g *rateGate) pump() {
	for {
		more, spare := g.prune()
		if !more {
			return
		}
		if !spare {
			if delay := g.limiter.Reserve().Delay(); delay > 0 {
				timer := time.NewTimer(delay)
				<-timer.C
			}
		}
		g.serve()
	}
}

// prune drops callers that have given up; more is false when none is left, and
// spare says that a token that was given back is taken for the first of them.
func (g *rateGate) prune() (more, spare bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.waiting) > 0 && g.waiting[0].gone {
		heap.Pop(&g.waiting)
	}
	g.pumping = len(g.waiting) > 0
	return g.pumping, g.pumping && g.takeSpare()
}

func (g *rateGate) serve() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.waiting) > 0 {
		read := g.oldestRead()
		next := 0
		if read >= 0 && g.passed >= readEvery-1 {
			next = read
		}
		w, _ := heap.Remove(&g.waiting, next).(*waiter)
		if w.gone {
			continue
		}
		if g.passed++; read < 0 || next == read {
			g.passed = 0
		}
		close(w.ready)
		return
	}
}

// oldestRead is where the read is that has waited longest; -1: none waits. Few wait at once:
// each is one of the account's requests in progress.
func (g *rateGate) oldestRead() int {
	oldest := -1
	for i, w := range g.waiting {
		if w.reads() && !w.gone && (oldest < 0 || w.order < g.waiting[oldest].order) {
			oldest = i
		}
	}
	return oldest
}

func (w *waiter) reads() bool { return w.priority >= priorityPoll }

// before: by priority, then in order of arrival.
func (w *waiter) before(other *waiter) bool {
	if w.priority != other.priority {
		return w.priority < other.priority
	}
	return w.order < other.order
}
