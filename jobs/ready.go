package jobs

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"perennial/ledger"
)

// lane is a line of work that can be paused apart from the others.
type lane string

const (
	laneOrder   lane = "order"
	laneRenewal lane = "renewal"
	lanePoll    lane = "poll"
)

// job is one operation on its way through a worker.
type job struct {
	lane     lane
	priority Priority
	at       time.Time // within a priority, the earliest first
	op       Operation
	cmd      Command
	sending  *ledger.OperationSending // committed already, not yet sent
	released bool                     // by a person: the day's limit does not hold it again
	leave    func()                   // gives the place among the requests under way back
	probe    bool                     // let through a paused lane, to see whether it works
}

// ready holds the few operations that can start now. Everything else waits in
// the ledger or in JetStream, so memory does not grow with the work.
type ready struct {
	capacity int // of one lane
	pauses   *pauses

	mu     sync.Mutex
	cond   *sync.Cond
	lanes  map[lane]*jobHeap
	active map[string]lane // queued or under way
	counts map[lane]int
	coming int           // read off the stream and not queued yet, whatever their lane
	probes map[lane]bool // one job may pass a paused lane
	polled int           // polls in a row
	room   chan struct{}
}

func newReady(capacity int, p *pauses) *ready {
	r := &ready{
		capacity: capacity, pauses: p, active: map[string]lane{}, counts: map[lane]int{}, probes: map[lane]bool{},
		lanes: map[lane]*jobHeap{laneOrder: {}, laneRenewal: {}, lanePoll: {}}, room: make(chan struct{}, 1),
	}
	r.cond = sync.NewCond(&r.mu)
	p.changed = r.broadcast
	return r
}

// broadcast takes the lock: a worker between its look and its wait would miss
// the call otherwise.
func (r *ready) broadcast() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cond.Broadcast()
	r.signalRoom()
}

func (r *ready) signalRoom() {
	select {
	case r.room <- struct{}{}:
	default:
	}
}

// push queues a job unless its operation is queued or under way already.
func (r *ready) push(j *job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.active[j.op.ID]; !ok {
		r.add(j)
	}
}

// again queues the next step of an operation that is under way.
func (r *ready) again(j *job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remove(j.op.ID)
	r.add(j)
}

func (r *ready) add(j *job) {
	r.active[j.op.ID] = j.lane
	r.counts[j.lane]++
	heap.Push(r.lanes[j.lane], j)
	r.cond.Signal()
}

// done frees the place of an operation that ended or went to wait.
func (r *ready) done(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remove(id)
}

func (r *ready) remove(id string) {
	if l, ok := r.active[id]; ok {
		r.counts[l]--
		delete(r.active, id)
	}
	r.signalRoom()
}

// free is how many more jobs a lane takes.
func (r *ready) free(l lane) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.capacity - r.counts[l] - r.coming
}

// reserve keeps room for a command that was read, until it arrives.
func (r *ready) reserve() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.coming++
}

// arrive queues what a command that had room reserved starts, and gives the room
// back, in one step: counted twice it would turn others away.
func (r *ready) arrive(jobs []*job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.coming--
	for _, j := range jobs {
		if _, ok := r.active[j.op.ID]; !ok {
			r.add(j)
		}
	}
	r.signalRoom()
}

func (r *ready) isActive(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.active[id]
	return ok
}

// letOne lets one job of a paused lane through, to see whether it works again.
func (r *ready) letOne(l lane) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.probes[l] = true
	r.cond.Broadcast()
}

// wakeAll has every worker that waits in pop look again when ctx ends.
func (r *ready) wakeAll(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, r.broadcast)
}

// pop waits for the most urgent job of the lanes that are not paused. Somebody
// has called wakeAll for ctx.
func (r *ready) pop(ctx context.Context) (*job, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if l, ok := r.first(); ok {
			j, _ := heap.Pop(r.lanes[l]).(*job)
			j.probe, r.probes[l] = r.probes[l], false
			if r.polled++; l != lanePoll {
				r.polled = 0
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
	for _, h := range r.lanes {
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
	for l, h := range r.lanes {
		kept := &jobHeap{}
		for _, j := range *h {
			if j.sending != nil || l == lanePoll {
				*kept = append(*kept, j)
				continue
			}
			r.remove(j.op.ID)
		}
		heap.Init(kept)
		r.lanes[l] = kept
	}
}

// pollsInARow bounds the polls that go before what pays: what is paid for is
// settled before more is paid for (trap 58), and neither starves the other.
const pollsInARow = 3

// first is the lane whose head goes next.
func (r *ready) first() (best lane, found bool) {
	pays, found := r.firstOf(laneRenewal, laneOrder)
	if _, polls := r.firstOf(lanePoll); !polls {
		return pays, found
	}
	if !found {
		return lanePoll, true
	}
	head := (*r.lanes[pays])[0]
	if head.sending != nil || head.priority == PriorityAmbiguous || r.polled >= pollsInARow {
		return pays, true
	}
	return lanePoll, true
}

// firstOf is the most urgent of some lanes that are not paused. They are looked at
// in the order given, so that the same jobs are taken up in the same order.
func (r *ready) firstOf(lanes ...lane) (best lane, found bool) {
	for _, l := range lanes {
		h := r.lanes[l]
		if h.Len() == 0 {
			continue
		}
		head := (*h)[0]
		// A job whose intent is committed is taken up even so: send records that
		// nothing was sent, and it waits like the others.
		if head.sending == nil && r.pauses.blocked(l) && !r.probes[l] {
			continue
		}
		if !found || head.before((*r.lanes[best])[0]) {
			best, found = l, true
		}
	}
	return best, found
}

func (j *job) before(other *job) bool {
	if (j.sending != nil) != (other.sending != nil) {
		return j.sending != nil
	}
	if j.priority != other.priority {
		return j.priority < other.priority
	}
	return j.at.Before(other.at)
}

type jobHeap []*job

func (h jobHeap) Len() int           { return len(h) }
func (h jobHeap) Less(i, k int) bool { return h[i].before(h[k]) }
func (h jobHeap) Swap(i, k int)      { h[i], h[k] = h[k], h[i] }
func (h *jobHeap) Push(x any)        { j, _ := x.(*job); *h = append(*h, j) }
func (h *jobHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return last
}
