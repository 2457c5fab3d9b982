// Package queue is Perennial's side of NATS: the embedded server, subjects and
// streams, commands in, events out, the lease of an account and its service.
//
// It promises that a command whose publication was acknowledged is on disk and
// is delivered until a consumer acknowledges it; that events reach their stream
// in journal order with no gap and no duplicate, whatever crashes; and that a
// stream whose settings would lose data is refused with the field named.
//
// It knows nothing of what a command or an event means: bodies pass through as
// bytes, and nothing from a body ever becomes a subject token.
package queue
