// The queue of operations that can start now, and which of them a worker takes next.

package jobs

import (
	"container/heap"
	"context"
	"sync"
)

// bulkOperations is the most operations of a command that is not bulk by default: a
// small command does not wait for all operations of a larger one.
const bulkOperations = 10

// ready holds the few operations that can start now. Everything else waits in
// the ledger or in JetStream, so memory does not grow with the work.
type ready struct {
	capacity int // of one place, and of what comes back from the ledger to one lane
	pauses   *pauses

	mu     sync.Mutex
	cond   *sync.Cond
	queues map[place]*inOrder[*job]
	active map[string]taken // queued or under way
	counts map[taken]int
	coming map[place]int // read off the stream and not queued yet
	passed map[place]int // how often in a row what waits in a place was passed over
	probes map[lane]bool // one job may pass a paused lane
	polled int           // polls in a row
	room   chan struct{} // closed and made again when there is more of it

	readings map[*reading]bool
}

// reading is a read of the ledger whose operations are queued one by one. What went from
// the queue meanwhile has changed since it was read, and is not queued as it was then.
type reading struct {
	of   *ready
	gone map[string]bool
}

// beginReading is called before the ledger is read, and end after the last push.
func (r *ready) beginReading() *reading {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := &reading{of: r, gone: map[string]bool{}}
	r.readings[x] = true
	return x
}

func (x *reading) end() {
	x.of.mu.Lock()
	defer x.of.mu.Unlock()
	delete(x.of.readings, x)
}

// taken is the room that an operation takes: that of its place, or of its lane
// when it came back from the ledger.
type taken struct {
	place
	source source
}

// source is where a job came from.
type source int

const (
	fromStream source = iota // its command was accepted in this run
	fromLedger               // it came due in the ledger
)

func newReady(capacity int, p *pauses) *ready {
	r := &ready{
		capacity: capacity, pauses: p, active: map[string]taken{}, counts: map[taken]int{}, probes: make(map[lane]bool),
		coming: map[place]int{}, readings: map[*reading]bool{}, passed: map[place]int{}, queues: map[place]*inOrder[*job]{polling: {}}, room: make(chan struct{}),
	}
	for _, p := range paying {
		r.queues[p] = &inOrder[*job]{}
	}
	r.cond = sync.NewCond(&r.mu)
	p.changed = r.broadcast
	return r
}

// broadcast wakes the waiting workers. It takes the lock: a worker between its check
// and its wait would miss the call otherwise.
func (r *ready) broadcast() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cond.Broadcast()
	r.signalRoom()
}

func (r *ready) signalRoom() {
	close(r.room)
	r.room = make(chan struct{})
}

// push queues a job unless its operation is queued or under way already.
func (r *ready) push(j *job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pushFrom(fromStream, j)
}

// pushBack is push of a job that came due in the ledger.
func (r *ready) pushBack(j *job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pushFrom(fromLedger, j)
}

func (r *ready) pushFrom(s source, j *job) {
	if _, ok := r.active[j.op.ID]; !ok {
		r.add(s, j)
	}
}

// push queues a job whose operation was read, unless it is queued or under way, or was
// since.
func (x *reading) push(s source, j *job) {
	x.of.mu.Lock()
	defer x.of.mu.Unlock()
	if !x.gone[j.op.ID] {
		x.of.pushFrom(s, j)
	}
}

// requeue queues the next step of an operation that is under way.
func (r *ready) requeue(j *job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.active[j.op.ID].source
	r.remove(j.op.ID)
	r.add(s, j)
}

func (r *ready) add(s source, j *job) {
	t := taken{j.place(), s}
	if s == fromLedger {
		t.urgency = usual // one room for all
	}
	r.active[j.op.ID] = t
	r.counts[t]++
	heap.Push(r.queues[j.place()], j)
	r.cond.Signal()
}

// done frees the place of an operation that ended or went to wait.
func (r *ready) done(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remove(id)
}

func (r *ready) remove(id string) {
	if t, ok := r.active[id]; ok {
		r.counts[t]--
		delete(r.active, id)
	}
	for x := range r.readings {
		x.gone[id] = true
	}
	r.signalRoom()
}

// free is how many more jobs of the commands stream a place takes.
func (r *ready) free(p place) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.capacity - r.counts[taken{place: p}] - r.coming[p]
}

// freeBack is how many more jobs that come back from the ledger a lane takes.
func (r *ready) freeBack(l lane) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.capacity - r.counts[taken{place{l, usual}, fromLedger}]
}

// moreRoom is closed when there may be more room.
func (r *ready) moreRoom() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.room
}

// reserve keeps room for a command that was read, until it arrives.
func (r *ready) reserve(p place) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.coming[p]++
}

// arrive queues what a command that had room reserved starts, and gives the room
// back, in one step: counted twice it would turn others away.
func (r *ready) arrive(p place, jobs []*job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.coming[p]--
	for _, j := range jobs {
		r.pushFrom(fromStream, j)
	}
	r.signalRoom()
}

func (r *ready) isActive(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.active[id]
	return ok
}

// probe lets one job of a paused lane pass, to find out whether it works again.
func (r *ready) probe(l lane) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.probes[l] = true
	r.cond.Broadcast()
}

// wakeAll wakes every worker that waits in pop when ctx ends.
func (r *ready) wakeAll(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, r.broadcast)
}

// pop waits for the most urgent job of the lanes that are not paused. The
// caller has arranged wakeAll for the end of ctx.
func (r *ready) pop(ctx context.Context) (*job, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if p, ok := r.first(); ok {
			j, _ := heap.Pop(r.queues[p]).(*job)
			j.probe, r.probes[p.lane] = r.probes[p.lane], false
			if r.polled++; p != polling {
				r.polled = 0
				r.countPassed(p)
			}
			return j, nil
		}
		r.cond.Wait()
	}
}

// intended takes out the queued jobs whose intent is committed.
func (r *ready) intended() []*job {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*job
	for _, h := range r.queues {
		for _, j := range *h {
			if j.sending != nil {
				out = append(out, j)
			}
		}
		*h = nil
	}
	return out
}

// forget takes out what is queued and not intended yet.
func (r *ready) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for p, h := range r.queues {
		kept := &inOrder[*job]{}
		for _, j := range *h {
			if j.sending != nil || p == polling {
				*kept = append(*kept, j)
				continue
			}
			r.remove(j.op.ID)
		}
		heap.Init(kept)
		r.queues[p] = kept
	}
}

// pollsInARow bounds the polls that go before what pays: what is paid for is
// settled before more is paid for (trap 58), and neither starves the other. What is
// intended already is no exception: the intake intends as fast as it is sent.
const pollsInARow = 3

// passedMost is how often in a row the head of a place may be passed over: what is
// more urgent goes first, and nothing starves.
const passedMost = 3

// first is the place whose head goes next.
func (r *ready) first() (best place, found bool) {
	pays, found := r.firstToPay()
	if !r.open(polling) {
		return pays, found
	}
	if !found {
		return polling, true
	}
	if (*r.queues[pays])[0].priority == priorityAmbiguous || r.polled >= pollsInARow {
		return pays, true
	}
	return polling, true
}

// open reports whether something waits in a place whose lane is not paused.
func (r *ready) open(p place) bool {
	h := r.queues[p]
	if h.Len() == 0 {
		return false
	}
	// A job whose intent is committed is taken up even so: send records that
	// nothing was sent, and it waits like the others.
	return (*h)[0].sending != nil || !r.pauses.blocked(p.lane) || r.probes[p.lane]
}

// firstToPay is the place with the most urgent head; one that was passed over too
// often has its turn before all but what is under way already. Places are compared in
// one order, so that the same jobs are taken up in the same order.
func (r *ready) firstToPay() (best place, found bool) {
	for _, p := range paying {
		if !r.open(p) {
			continue
		}
		if !found || r.goesBefore(p, best) {
			best, found = p, true
		}
	}
	return best, found
}

// goesBefore compares the heads of two places.
func (r *ready) goesBefore(p, other place) bool {
	head, than := (*r.queues[p])[0], (*r.queues[other])[0]
	if head.begun() || than.begun() {
		return head.before(than)
	}
	waited, overdue := r.passed[p] >= passedMost, r.passed[other] >= passedMost
	if waited || overdue {
		return r.passed[p] > r.passed[other]
	}
	if p.urgency != other.urgency {
		return p.urgency < other.urgency
	}
	return head.before(than)
}

// countPassed counts for every other place that something of it could have gone.
func (r *ready) countPassed(gone place) {
	for _, p := range paying {
		if p == gone || !r.open(p) {
			r.passed[p] = 0
			continue
		}
		r.passed[p]++
	}
}
