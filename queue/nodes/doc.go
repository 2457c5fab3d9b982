// Package nodes has what the runners of a NATS server know about each other: which runners
// are alive, the data that they post about themselves, and which accounts an operator has
// pinned to which runner.
//
// The post of a runner that ended without notice expires. A watch reports all current posts
// and then every change.
//
// The package owns the buckets queue.NodesBucket and queue.PinsBucket. A post is bytes
// here; which runner gets an account is decided elsewhere.
package nodes
