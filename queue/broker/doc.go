// Package broker creates consumers of an account's events stream for users who may only
// read. It exists because NATS has no permission for a part of a request: a user who may
// create a pull consumer may also create a push consumer. JetStream would then push to any
// subject in the request, such as a verb of another account. A user's NATS account
// therefore sends these requests to the broker. The broker refuses push consumers and
// forwards the other requests to JetStream.
//
// A user can change and delete only its own consumers, and their number is limited. The
// package owns the subjects perennial.js.<account>.>, and reads no events.
package broker
