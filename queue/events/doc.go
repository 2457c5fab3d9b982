// Package events reads an account's events stream, and removes its first events.
//
// It promises that a follower gets every event once and in order, across lost connections
// too. A read that decides something is answered by the stream's leader, never by another
// replica. A removal removes exactly the events before a first one, or none, while nobody
// publishes.
//
// It knows the position of every consumer and webhook that still needs events, and nothing
// of an event's meaning: bodies are bytes. It publishes no events.
package events
