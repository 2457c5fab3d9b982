// Package queue has the connection to NATS, and defines Perennial's names there: accounts,
// kinds of command, subjects, streams and buckets.
//
// The connection reconnects until it is closed, and says why it is down. A request that the
// server does not permit fails with an error that contains the subject. If the server
// refuses to create a stream or bucket, the error explains why. Text from a message body is
// never used as a subject token.
//
// Each package under queue has one purpose and uses the [JetStream] of the connection, not
// the [Queue]. Package queue imports none of them; CONTRIBUTING.md lists the allowed
// dependencies.
package queue
