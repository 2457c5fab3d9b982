// Package queue is the connection to NATS, and defines Perennial's names there: accounts,
// kinds of command, subjects, streams and buckets.
//
// It promises to keep reconnecting until it is closed, and to say why the connection is
// down. A request that the server does not permit fails with an error that names the
// subject. If the server refuses to create a stream or bucket, the error explains why.
// Nothing from a message body ever becomes a subject token.
//
// Each package under it has one purpose and takes its [JetStream], not the [Queue]. This
// package imports none of them; CONTRIBUTING.md lists the allowed dependencies.
package queue
