// Package queue is the connection to NATS, and defines Perennial's names there: accounts,
// kinds of command, subjects, streams and buckets.
//
// It promises to keep reconnecting while the connection is wanted, and to say why it is
// down. A request that the server forbids ends with the subject named. What the server
// refuses to create is explained in words. Nothing from a message body ever becomes a
// subject token.
//
// The packages under it have one subject each and take its [JetStream], not the [Queue].
// This package knows none of them; CONTRIBUTING.md draws the allowed dependencies.
package queue
