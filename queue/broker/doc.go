// Package broker creates consumers of an account's events stream for users who may only
// read. NATS has no permission for part of a request: a user who may create a pull consumer
// may also create one that pushes. JetStream pushes to any subject in the request, such as
// a verb of another account. A user's account therefore sends those requests to the broker.
// It refuses push consumers and forwards the rest to JetStream.
//
// It promises that a user changes and deletes only its own consumers, and that its
// consumers leave room for others. It owns the subjects perennial.js.<account>.>, and reads
// no event.
package broker
