// A job is one operation in progress, with its lane, its place in the queue and its
// order.

package jobs

import (
	"time"

	"perennial/jobs/command"
	"perennial/jobs/decide"
	"perennial/ledger/fact"
)

// lane is a class of requests that can be paused separately.
type lane string

const (
	laneOrder   lane = "order"
	laneRenewal lane = "renewal"
	lanePoll    lane = "poll"
)

// urgency ranks waiting jobs by their command's priority.
type urgency int

const (
	urgent urgency = iota
	usual
	inBulk
)

// place holds the waiting jobs of one lane and urgency. Each place has its own capacity,
// so that one does not block another.
type place struct {
	lane    lane
	urgency urgency
}

// paying lists the places of jobs that charge, in the order of comparison.
var paying = func() (all []place) {
	for u := urgent; u <= inBulk; u++ {
		for _, k := range kindsByPriority() {
			all = append(all, place{kinds[k].lane, u})
		}
	}
	return all
}()

var polling = place{lanePoll, usual}

// urgencyOf returns the urgency of a command's operations.
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

// job is an operation on its way through a worker.
type job struct {
	lane        lane
	urgency     urgency
	priority    gatePriority
	at          time.Time // orders jobs of equal priority, earliest first
	queued      int64     // orders jobs of an equal time: the first queued goes first
	expired     bool      // all its proxies had expired when queued: live proxies go first, then the latest expired
	op          decide.Operation
	cmd         command.Command
	sending     *fact.OperationSending // committed but not yet sent
	unknown     []string               // proxies that the provider just did not know
	released    bool                   // by an operator: the daily limit does not hold it again
	releaseSlot func()                 // frees its request slot
	probe       bool                   // passes a paused lane, to test it
}

func (j *job) place() place {
	if j.lane == lanePoll {
		return polling
	}
	return place{j.lane, j.urgency}
}

// begun reports whether the intent is committed or an attempt may have executed.
func (j *job) begun() bool { return j.sending != nil || j.priority == priorityAmbiguous }

// turn returns the job's priority at the gate. Jobs that charge share one there: ready
// has ordered them, and the gate must not reorder them.
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
