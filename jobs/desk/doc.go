// Package desk executes the requests of operators. It releases, cancels and retries
// operations, books answers to reviews, and records money that no reply showed.
//
// Each change is one fact with the operator's name and reason. If the operation changes
// before the fact is written, the package decides again. An amount that looks like a
// mistake, or contradicts the provider, must be confirmed before it is booked.
//
// The package has no state. It must not depend on the queue of jobs, the pauses or the
// requests in progress; the runner passes functions for them.
package desk
