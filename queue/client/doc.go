// Package client is for Go programs that send commands to Perennial, or read their results:
// typed commands, results and events.
//
// It promises that a command published again, after a lost answer or a crash, is done once
// by its id. [Client.Do] returns the end of this content, not of another one under the same
// id. [Client.Events] leaves out and repeats no event, and stops if the history differs
// from the one that the caller has read.
//
// The types match docs/events. Unknown fields are no error: a newer runner may publish
// more.
package client
