// Package broker makes consumers of an account's events stream for users that may only
// read. NATS has no permission for a part of a request: a user that may create a pull
// consumer may also create one that pushes, and JetStream pushes to whatever subject
// the request names, a verb of another account among them. So the broker gets those
// requests of a user's account; it refuses push consumers and passes the rest on to
// JetStream.
//
// It promises that a user changes and deletes only its own consumers, and that its consumers
// leave room for those of the others. It owns the subjects perennial.js.<account>.>, and
// reads no event.
package broker
