// Package publish puts commands on an account's stream, as producers do.
//
// It promises that a command whose publication returns without an error is on disk; that of a
// batch all commands are stored, or none; that without a connection nothing is kept in memory
// for later; and that an error says whether publishing again under the same id may help.
//
// It knows nothing of what a command means: bodies are bytes.
package publish
