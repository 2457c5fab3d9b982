// Package streams says which streams and consumers an account has, and with which settings.
//
// It promises that a stream whose settings would lose data, or let others forge it, is
// refused with the field named, and that what an earlier version made is adjusted without a
// loss; that a check changes nothing; and that limits of the NATS account which leave too
// little are named before they are met.
//
// It owns the configurations. What is published, taken and read is others' matter.
package streams
