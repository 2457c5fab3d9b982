// Package service serves the verbs of an account over NATS, and requests them.
//
// It promises that every request is answered or refused, even when a runner ends. An answer
// longer than a message comes in parts or not at all. A request that waits for the
// provider, or for an event, takes no room of others. Discovery shows each verb with the
// results of its requests.
//
// It owns the subjects perennial.svc.<account>.*, and the codes of their errors. It knows
// nothing of what a verb does: bodies are bytes.
package service
