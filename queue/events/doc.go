// Package events reads an account's events stream, and removes its first events.
//
// A follower gets every event once and in order, also across lost connections. Reads that
// affect a decision are answered by the stream's leader, because other replicas may lag. A
// removal removes exactly the events before a given event, or none, while no runner
// publishes.
//
// The package knows the position of every consumer and webhook that still needs events. It
// must not depend on an event's meaning; bodies are bytes. It publishes no events.
package events
