// Package streams defines an account's streams and consumers, and their settings.
//
// A stream whose settings would lose data, or allow others to forge data, is refused with an
// error that contains the field. Streams of earlier versions are adjusted without loss. A check
// changes nothing. Limits of the NATS account that are too low are reported before they are
// reached.
//
// The package owns the configurations. Publishing, consuming and reading are in other
// packages.
package streams
