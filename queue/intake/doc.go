// Package intake takes the commands of an account off their stream, the most urgent line
// first.
//
// It promises that a command is delivered until it is acknowledged, across reconnects,
// server restarts and lost consumers. No purge removes a command that was not acknowledged
// here, and no line waits for another. A backlog stays on the server.
//
// It knows nothing of what a command means. Package streams configures its consumers.
package intake
