// Package client is for Go programs that ask Perennial for something, or read what it
// did: typed commands, what they came to, and events.
//
// It promises that a command which it publishes again, after a lost answer or a crash,
// is done once by its id; that [Client.Do] returns the end of this content and not of
// another one under the same id; and that [Client.Events] leaves no event out, gives
// none twice, and stops where the history is another one than the caller has read.
//
// The shapes are those of docs/events. Fields that are not known are no error: a newer
// runner may publish more.
package client
