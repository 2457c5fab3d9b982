// Package intake takes the commands of an account from their stream. It does so separately for
// each line, which is the commands of one kind and priority (queue.Line).
//
// A command is delivered until it is acknowledged, across reconnects, server restarts and
// lost consumers. No purge removes a command that was not acknowledged here, and no line
// waits for another. A backlog stays on the server.
//
// The package must not depend on what a command means. Package streams configures its
// consumers.
package intake
