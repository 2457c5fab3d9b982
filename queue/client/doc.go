// Package client is for Go programs that send commands to Perennial, or read their results.
// It has typed commands, results and events.
//
// A command that is published again, after a lost reply or a crash, is executed once, by its
// id. [Client.Do] returns the result of the given content, never that of other content with
// the same id. [Client.Events] neither omits nor repeats an event, and stops if the history
// differs from the one that the caller has read.
//
// The types match docs/events. Unknown fields are not an error, because a newer runner may
// publish more.
package client
