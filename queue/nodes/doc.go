// Package nodes has what the runners of a NATS server know of one another: which of them
// live, what they say of themselves, and which accounts a person has given to which.
//
// It promises that the word of a runner that ended without saying so runs out, and that a
// watch tells all that is known at once and then every change.
//
// It owns the buckets queue.NodesBucket and queue.PinsBucket. What a runner says passes
// through as bytes; which runner has an account is decided elsewhere.
package nodes
