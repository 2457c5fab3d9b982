// Package publish publishes commands on an account's stream, as producers do.
//
// A command is on disk when its publication returns without an error. A batch is stored
// completely or not at all, unless other publishers keep too many batches open: its commands
// are then published singly. Without a connection, nothing is buffered to be sent later. An
// error says whether publishing again with the same id may help.
//
// The package must not depend on what a command means; bodies are bytes.
package publish
