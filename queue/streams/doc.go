// Package streams defines an account's streams and consumers, and their settings.
//
// It promises to refuse a stream whose settings would lose data, or let others forge it,
// with the field named. Streams of earlier versions are adjusted without loss. A check
// changes nothing. Limits of the NATS account that leave too little are named before they
// are reached.
//
// It owns the configurations. Publishing, consuming and reading are in other packages.
package streams
