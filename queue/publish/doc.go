// Package publish puts commands on an account's stream, as producers do.
//
// It promises that a command is on disk when its publication returns without an error. Of a
// batch all commands are stored, or none. Without a connection nothing is buffered for
// later. An error says whether publishing again under the same id may help.
//
// It knows nothing of what a command means: bodies are bytes.
package publish
