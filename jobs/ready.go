package jobs

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"perennial/jobs/command"
	"perennial/jobs/decide"
	"perennial/ledger/fact"
)

// bulkOperations is the largest number of operations of a command with normal priority. A
// larger command becomes bulk, so that small commands need not wait for all of its
// operations.
const bulkOperations = 10

// ready has the operations that can start now. Its capacity is limited, which bounds
// memory; other operations wait in the ledger or in JetStream.
type ready struct {
	capacity int // per place, and per lane for operations from the ledger
	pauses   *pauses

	mu     sync.Mutex
	cond   *sync.Cond
	queues map[place]*inOrder[*job]
	active map[string]taken // queued or in progress
	counts map[taken]int
	coming map[place]int // commands that were read from the stream but are not queued yet
	passed map[place]int // how many times in a row the head of this place was passed over for another place
	probes map[lane]bool // lanes that one job may pass although they are paused
	polled int           // consecutive polls
	added  int64         // jobs queued so far
	room   chan struct{} // closed and replaced when there may be more room

	readings map[*reading]bool
}

// reading is a read of the ledger whose operations are queued one by one. An operation that
// left the queue during the read has changed, so its version from the read is not queued.
type reading struct {
	of   *ready
	gone map[string]bool
}

// beginReading starts a reading. Call it before the ledger is read, and call end after the
// last push.
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

// taken is the capacity that an operation uses. An operation from the ledger uses the capacity of
// its lane. Any other operation uses the capacity of its place.
type taken struct {
	place
	source source
}

type source int

const (
	fromStream source = iota // accepted in this run
	fromLedger               // came due in the ledger
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

// broadcast wakes the waiting workers. It takes the lock, because otherwise a worker between
// its check and its wait would miss the signal.
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

func (r *ready) push(j *job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pushFrom(fromStream, j)
}

// pushBack queues a job that came due in the ledger, unless its operation is queued or in
// progress.
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

// Queues a job, unless its operation is active or was active after the reading began.
func (x *reading) push(s source, j *job) {
	x.of.mu.Lock()
	defer x.of.mu.Unlock()
	if !x.gone[j.op.ID] {
		x.of.pushFrom(s, j)
	}
}

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
		t.urgency = usual // all urgencies share one capacity
	}
	r.active[j.op.ID] = t
	r.counts[t]++
	r.added++
	j.queued = r.added
	heap.Push(r.queues[j.place()], j)
	r.cond.Signal()
}

// Frees the capacity of an operation that has ended or must wait.
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

// Returns how many more jobs from the stream fit in a place.
func (r *ready) free(p place) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.capacity - r.counts[taken{place: p}] - r.coming[p]
}

// freeBack returns how many more jobs from the ledger fit in a lane.
func (r *ready) freeBack(l lane) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.capacity - r.counts[taken{place{l, usual}, fromLedger}]
}

// moreRoom returns a channel that closes when there may be more room.
func (r *ready) moreRoom() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.room
}

// Reserves room for a command that was read. The room stays reserved until a call of arrive.
func (r *ready) reserve(p place) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.coming[p]++
}

// Queues the first jobs of a command and frees its reserved room in one step. In two steps, the
// command would briefly count twice.
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

// Allows one job through a paused lane, to test whether the pause can end.
func (r *ready) probe(l lane) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.probes[l] = true
	r.cond.Broadcast()
}

// When ctx ends, every worker that waits in pop is woken.
func (r *ready) wakeAll(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, r.broadcast)
}

// Waits for the job that goes next and removes it from its queue. The caller must have called
// wakeAll.
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

// Removes and returns the queued jobs with a committed intent. It drops the other queued jobs.
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

// Removes the queued jobs without a committed intent, except polls.
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

// pollsInARow limits how many consecutive polls precede a request that charges. Polls go first,
// because paid orders should settle before more is paid (trap 58). Polls also go before jobs with
// a committed intent. The intake commits intents as fast as they are sent, so polls would
// otherwise never run.
const pollsInARow = 3

// passedMost is how many times in a row the first job of a place may wait while jobs of other
// places are taken. Urgent jobs go first, but they do not starve the others.
const passedMost = 3

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

func (r *ready) open(p place) bool {
	h := r.queues[p]
	if h.Len() == 0 {
		return false
	}
	// A job with a committed intent is taken even during a pause. The attempt records that
	// nothing was sent, and the operation waits.
	return (*h)[0].sending != nil || !r.pauses.blocked(p.lane) || r.probes[p.lane]
}

// firstToPay compares the first jobs of the queues whose jobs charge. It returns the place of the
// job that goes next. The choice is deterministic, because the list of these places has a fixed
// order.
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

// goesBefore reports whether the first job of p goes before the first job of other. Operations
// that have begun go first, then queues that were passed over at least passedMost times.
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

// gone is the place whose first job was taken. Each other place whose first job could have been
// taken is passed over once more. The counts of all remaining places return to 0.
func (r *ready) countPassed(gone place) {
	for _, p := range paying {
		if p == gone || !r.open(p) {
			r.passed[p] = 0
			continue
		}
		r.passed[p]++
	}
}

// lane is a class of requests that can be paused separately.
type lane string

const (
	laneOrder   lane = "order"
	laneRenewal lane = "renewal"
	lanePoll    lane = "poll"
)

// urgency is a job's rank, derived from its command's priority.
type urgency int

const (
	urgent urgency = iota
	usual
	inBulk
)

// place identifies the queue of one lane and urgency. Each place has its own capacity, so
// that a full place does not block another.
type place struct {
	lane    lane
	urgency urgency
}

// paying lists the places of jobs that charge, in a fixed order (see firstToPay).
var paying = func() (all []place) {
	for u := urgent; u <= inBulk; u++ {
		for _, k := range kindsByPriority() {
			all = append(all, place{kinds[k].lane, u})
		}
	}
	return all
}()

var polling = place{lanePoll, usual}

func urgencyOf(p command.Urgency) urgency {
	switch p {
	case command.UrgencyHigh:
		return urgent
	case command.UrgencyBulk:
		return inBulk
	case command.UrgencyNormal:
	}
	return usual
}

type job struct {
	lane        lane
	urgency     urgency
	priority    gatePriority
	at          time.Time // orders jobs of equal priority; the earliest goes first
	queued      int64     // orders jobs with equal times; the first queued goes first
	expired     bool      // all its proxies had expired when it was queued; such jobs go last, the latest expired first
	op          decide.Operation
	cmd         command.Command
	sending     *fact.OperationSending // committed but not yet sent
	unknown     []string               // proxies for which the precheck got proxy_not_found
	released    bool                   // released by an operator, so the daily limit does not hold it again
	serial      bool                   // the operations of its command run one by one
	releaseSlot func()                 // frees its request slot
	probe       bool                   // may be sent although its lane is paused, to test the lane
}

func (j *job) place() place {
	if j.lane == lanePoll {
		return polling
	}
	return place{j.lane, j.urgency}
}

// begun reports whether the intent is committed or an attempt may have executed.
func (j *job) begun() bool { return j.sending != nil || j.priority == priorityAmbiguous }

// At the gate, all jobs that charge share one priority. The ready queue has already ordered them,
// and the gate must keep that order.
func (j *job) turn() gatePriority { return min(j.priority, priorityRenewal) }

func (j *job) before(other *job) bool {
	if (j.sending != nil) != (other.sending != nil) {
		return j.sending != nil
	}
	if j.priority != other.priority {
		return j.priority < other.priority
	}
	if j.expired != other.expired {
		return other.expired
	}
	switch {
	case j.at.Equal(other.at):
		return j.queued < other.queued
	case j.expired:
		return j.at.After(other.at)
	}
	return j.at.Before(other.at)
}

type ordered[T any] interface{ before(other T) bool }

type inOrder[T ordered[T]] []T

func (h inOrder[T]) Len() int           { return len(h) }
func (h inOrder[T]) Less(i, k int) bool { return h[i].before(h[k]) }
func (h inOrder[T]) Swap(i, k int)      { h[i], h[k] = h[k], h[i] }

func (h *inOrder[T]) Push(x any) { v, _ := x.(T); *h = append(*h, v) }

func (h *inOrder[T]) Pop() any {
	last := len(*h) - 1
	v := (*h)[last]
	clear((*h)[last:])
	*h = (*h)[:last]
	return v
}
