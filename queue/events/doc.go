// Package events reads an account's events stream, and removes its first events.
//
// It promises that a follower gets every event in order, none left out and none twice, over
// lost connections too; that a read which decides something is answered by the stream's
// leader and by no replica; and that exactly the events before a first one are removed, or
// none, while nobody publishes.
//
// It knows the place of every consumer and webhook that still needs events, and nothing of
// what an event says: bodies are bytes. It publishes none.
package events
