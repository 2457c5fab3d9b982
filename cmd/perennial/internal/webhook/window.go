// The window of undelivered events. It decides which event is sent next, and up to which event
// everything is delivered. It does no I/O and never waits.

package webhook

import (
	"container/heap"
	"container/list"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"perennial/ledger/sleep"
	"perennial/queue/events"
	"perennial/queue/positions"
)

const (
	// windowEvents and windowBytes limit the undelivered events. At the limit, the sink reads
	// no more events until it has delivered some.
	windowEvents = 1000
	windowBytes  = 32 << 20
)

type event struct {
	positions.Mark

	id    string
	order string // key of the event's lane: events with equal keys are sent one after another
	prev  string // hash of the previous journal row
	at    time.Time
	body  []byte

	attempts int
	delays   *sleep.Backoff // nil before the first failed attempt
	place    *list.Element
}

// parse extracts what delivery needs from an event. Events with the same order key are sent in
// sequence. All events of a command have the same key, so its command.finished is sent after the
// events of its operations. The key of any other event is its subject, such as a proxy or the
// account.
func parse(e events.Event) (*event, error) {
	var of struct {
		ID      string    `json:"id"`
		Subject string    `json:"subject"`
		Time    time.Time `json:"time"`
		Data    struct {
			CommandID string `json:"command_id"`
			Ledger    struct {
				PrevHash string `json:"prev_hash"`
			} `json:"ledger"`
		} `json:"data"`
	}
	if err := json.Unmarshal(e.Data, &of); err != nil || of.ID == "" {
		return nil, fmt.Errorf("event %d cannot be read: %w", e.StreamSeq, err)
	}
	x := &event{Mark: positions.Mark{Seq: e.StreamSeq, Hash: e.Hash}, id: of.ID, prev: of.Data.Ledger.PrevHash, at: of.Time, body: e.Data}
	if x.order = "command " + of.Data.CommandID; of.Data.CommandID == "" {
		x.order = "subject " + of.Subject
	}
	return x, nil
}

// lane is the queue of undelivered events that must arrive in sequence. Its first event is
// sent next.
type lane struct {
	events []*event
	due    time.Time // time of the next retry, if the first event failed
}

// window contains all undelivered events, and the position up to which events were read.
type window struct {
	read        positions.Mark
	undelivered *list.List // list of *event, in journal order
	bytes       int
	lanes       map[string]*lane
	fresh       []*lane // lanes without an earlier attempt
	proven      []*lane // lanes whose last attempt succeeded, so that the next attempt probably succeeds too
	waiting     waiting // lanes whose first event failed and whose retry is not yet due
	repeats     []*lane // lanes with a retry that is due, fewest attempts first
	turn        int     // number of events that next has returned
	lastError   string
}

func newWindow(read positions.Mark) *window {
	return &window{read: read, undelivered: list.New(), lanes: map[string]*lane{}}
}

func (w *window) full() bool { return w.undelivered.Len() >= windowEvents || w.bytes >= windowBytes }

// pass records that the sink has read an event that needs no delivery.
func (w *window) pass(read positions.Mark) { w.read = read }

func (w *window) add(x *event) {
	w.read = x.Mark
	x.place = w.undelivered.PushBack(x)
	w.bytes += len(x.body)
	l := w.lanes[x.order]
	if l == nil {
		l = &lane{}
		w.lanes[x.order] = l
	}
	if l.events = append(l.events, x); len(l.events) == 1 {
		w.fresh = append(w.fresh, l)
	}
}

// next returns the event to send next. It returns nil if no event may be sent now. Each lane has
// at most one attempt in progress. First attempts go before retries. next returns a retry only
// if roomForRepeat is true, so that slow retries cannot occupy all parallel attempts.
func (w *window) next(now time.Time, roomForRepeat bool) *event {
	for len(w.waiting) > 0 && !w.waiting[0].due.After(now) {
		if l, ok := heap.Pop(&w.waiting).(*lane); ok {
			at, _ := slices.BinarySearchFunc(w.repeats, l.events[0].attempts, func(l *lane, n int) int { return l.events[0].attempts - n - 1 })
			w.repeats = slices.Insert(w.repeats, at, l)
		}
	}
	from, at := &w.fresh, 0
	switch newest := w.turn%2 == 1 && len(w.waiting)+len(w.repeats) > 0; {
	case len(w.proven) > 0 && (w.turn%4 > 0 || len(w.fresh) == 0):
		from = &w.proven
	case newest && len(w.fresh) > 0: // while retries wait, every other call takes the newest lane, so that a new command waits little for slow commands
		at = len(w.fresh) - 1
	case len(w.fresh) > 0:
	case roomForRepeat && len(w.repeats) > 0:
		from = &w.repeats
	default:
		return nil
	}
	w.turn++
	x := (*from)[at].events[0]
	*from = slices.Delete(*from, at, at+1)
	return x
}

// nextDue returns the time of the next retry. It returns the zero time if no retry waits.
func (w *window) nextDue() time.Time {
	switch {
	case len(w.repeats) > 0:
		return w.repeats[0].due
	case len(w.waiting) > 0:
		return w.waiting[0].due
	}
	return time.Time{}
}

func (w *window) delivered(x *event) {
	w.undelivered.Remove(x.place)
	w.bytes -= len(x.body)
	l := w.lanes[x.order]
	l.events = l.events[1:]
	if len(l.events) == 0 {
		delete(w.lanes, x.order)
		return
	}
	w.proven = append(w.proven, l)
}

func (w *window) failed(x *event, due time.Time, why string) {
	l := w.lanes[x.order]
	l.due, w.lastError = due, why
	heap.Push(&w.waiting, l)
}

// oldest returns the time of the oldest undelivered event. It returns the zero time if no event
// waits.
func (w *window) oldest() time.Time {
	if first, ok := w.first(); ok {
		return first.at
	}
	return time.Time{}
}

func (w *window) first() (*event, bool) {
	front := w.undelivered.Front()
	if front == nil {
		return nil, false
	}
	x, ok := front.Value.(*event)
	return x, ok
}

// position returns the newest position up to which all events are delivered. It includes the
// undelivered events that follow.
func (w *window) position() positions.Position {
	p := positions.Position{Mark: w.read, Read: w.read}
	if first, ok := w.first(); ok {
		p.Mark = positions.Mark{Seq: first.Seq - 1, Hash: first.prev}
	}
	for at := w.undelivered.Front(); at != nil; at = at.Next() {
		if x, ok := at.Value.(*event); ok {
			p.Undelivered = append(p.Undelivered, x.Seq)
		}
	}
	if due := w.nextDue(); !due.IsZero() {
		p.LastError, p.NextAttempt = w.lastError, &due
	}
	return p
}

// waiting is a heap of lanes, ordered by the time of their retry.
type waiting []*lane

func (w waiting) Len() int           { return len(w) }
func (w waiting) Less(i, j int) bool { return w[i].due.Before(w[j].due) }
func (w waiting) Swap(i, j int)      { w[i], w[j] = w[j], w[i] }

func (w *waiting) Push(x any) {
	if l, ok := x.(*lane); ok {
		*w = append(*w, l)
	}
}

func (w *waiting) Pop() any {
	all := *w
	last := all[len(all)-1]
	*w = all[:len(all)-1]
	return last
}
