// Package intake takes the commands of an account off their stream, the most urgent line
// first.
//
// It promises that a command is delivered until it is acknowledged, over reconnects, restarts
// of the server and the loss of consumers; that no purge removes a command which was not
// acknowledged here; that no line waits for another; and that a backlog stays on the server.
//
// It knows nothing of what a command means. Its consumers are as package streams configures
// them.
package intake
