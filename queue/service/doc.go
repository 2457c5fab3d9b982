// Package service serves the verbs of an account over NATS, and asks them.
//
// It promises that every request is answered or refused, also at the end of a runner; that an
// answer longer than a message comes in parts or not at all; that a request which waits for
// the provider, or for something to happen, takes no room of others; and that discovery
// shows each verb with what became of its requests.
//
// It owns the subjects perennial.svc.<account>.*, and the codes of their errors. It knows
// nothing of what a verb does: bodies are bytes.
package service
