// Package desk carries out the requests of operators. It releases, cancels and retries
// commands, books answers to reviews, and records money that no reply showed.
//
// Each change is one fact with the operator's name and reason. A change that was decided
// on an older state of an operation is decided again. An amount that looks like a
// mistake, or contradicts the provider, needs confirmation before it is booked.
//
// It owns no state. It must not know the queue of jobs, the pauses and the requests in
// progress: the runner passes functions for them.
package desk
