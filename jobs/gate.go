package jobs

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

type gatePriority int

// The priorities at the rate gate, most urgent first.
const (
	priorityAmbiguous gatePriority = iota // may have executed, so its idempotency window is running
	priorityRenewal
	priorityOrder
	priorityPoll
	priorityListing
)

// rateGate limits the rate of all requests of an App ID: commands, polls and listings share
// one rate. It does not check pauses.
type rateGate struct {
	limiter *rate.Limiter

	mu      sync.Mutex
	waiting inOrder[*waiter]
	order   int64
	pumping bool
	spare   int // returned tokens
	passed  int // consecutive turns in which the longest-waiting read was not chosen
}

type waiter struct {
	priority gatePriority
	order    int64
	ready    chan struct{}
	gone     bool
}

func newRateGate(perSecond float64) *rateGate {
	return &rateGate{limiter: rate.NewLimiter(rate.Limit(perSecond), max(1, int(perSecond)))}
}

// TryPass takes a token without waiting. It returns false if another caller waits or no
// token is available.
func (g *rateGate) TryPass() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.waiting) == 0 && !g.pumping && g.take()
}

// GiveBack returns a token from TryPass if its request will not be sent.
func (g *rateGate) GiveBack() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.spare++
}

// Takes a token and reports whether one was available. A returned token counts only while the
// limiter has room, so that the total never exceeds the burst.
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

// readEvery guarantees every fourth turn to the read that has waited longest, if other requests
// compete for every turn. Without this guarantee, polls could delay the listings that schedules
// need indefinitely.
const readEvery = 4

// Pass waits for a turn. Requests pass in order of priority, then of arrival, and reads have
// a guaranteed share (readEvery). Pass fails only if ctx ends.
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

// Takes one token at a time and gives it to the caller whose turn it is. It returns when no
// caller is waiting, so an idle gate needs no goroutine.
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

// prune removes the callers at the front that have given up. more reports whether a caller
// is waiting. spare reports whether prune took a returned token for the next caller.
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

// oldestRead returns the index of the longest-waiting read. It returns -1 if no read waits. A
// linear search is enough, because the account's concurrency bounds the number of waiting
// requests.
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

func (w *waiter) before(other *waiter) bool {
	if w.priority != other.priority {
		return w.priority < other.priority
	}
	return w.order < other.order
}
