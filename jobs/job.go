// This file defines a job: one operation in progress, with its lane, its place in the queue
// and its order.

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

// urgencyOf returns the urgency for a command's priority.
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

// job is an operation that is queued or in progress.
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

// turn returns the job's priority at the gate. All jobs that charge share one priority
// there: ready has already ordered them, and the gate must keep that order.
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
