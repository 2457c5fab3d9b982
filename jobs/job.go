// A job, one operation in progress, with its lane, its place in the queue and its order
// among the others.

package jobs

import (
	"time"

	"perennial/jobs/command"
	"perennial/jobs/decide"
	"perennial/ledger/fact"
)

// lane is a line of work that can be paused apart from the others.
type lane string

const (
	laneOrder   lane = "order"
	laneRenewal lane = "renewal"
	lanePoll    lane = "poll"
)

// urgency sorts what waits of a lane: by its command's priority.
type urgency int

const (
	urgent urgency = iota
	usual
	inBulk
)

// place is what waits of one lane and urgency; each has room of its own, so that
// none waits for room behind another.
type place struct {
	lane    lane
	urgency urgency
}

// paying are the places of what pays, in the order in which they are compared.
var paying = func() (all []place) {
	for u := urgent; u <= inBulk; u++ {
		for _, k := range kindsByPriority() {
			all = append(all, place{kinds[k].lane, u})
		}
	}
	return all
}()

var polling = place{lanePoll, usual}

// urgencyOf is where the operations of a command wait.
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

// job is one operation on its way through a worker.
type job struct {
	lane        lane
	urgency     urgency
	priority    gatePriority
	at          time.Time // within a priority, the earliest first
	expired     bool      // all its proxies had when it was queued: what lives goes first, and of these the latest
	op          decide.Operation
	cmd         command.Command
	sending     *fact.OperationSending // committed already, not yet sent
	unknown     []string               // of its proxies, those that the provider did not know a moment ago
	released    bool                   // by a person: the day's limit does not hold it again
	releaseSlot func()                 // gives the place among the requests in progress back
	probe       bool                   // let through a paused lane, to see whether it works
}

func (j *job) place() place {
	if j.lane == lanePoll {
		return polling
	}
	return place{j.lane, j.urgency}
}

// begun reports whether the job's intent is committed, or an attempt may have executed.
func (j *job) begun() bool { return j.sending != nil || j.priority == priorityAmbiguous }

// turn is the priority at the gate: the turn among what pays was taken in ready,
// and at the gate they would pass one another again.
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
	if j.expired {
		return j.at.After(other.at)
	}
	return j.at.Before(other.at)
}
