// Package queue is the connection to NATS, and the names of what Perennial has there:
// accounts, kinds of command, subjects, streams and buckets.
//
// It promises that a connection is made again as long as it is wanted, and says why it is
// down; that a request which the server forbids ends with the subject named; that what the
// server refuses to make is said in words; and that nothing from a body ever becomes a
// subject token.
//
// The packages under it, each of one subject, take its [JetStream] and not the [Queue]. It
// knows none of them: CONTRIBUTING.md draws which may know which.
package queue
