// Package nodes holds what the runners of a NATS server know of one another. It says which
// runners are alive, what they post about themselves, and which accounts an operator has
// pinned to which runner.
//
// It promises that the post of a runner that ended without notice expires. A watch reports
// everything known at once and then every change.
//
// It owns the buckets queue.NodesBucket and queue.PinsBucket. A post is bytes here; which
// runner gets an account is decided elsewhere.
package nodes
