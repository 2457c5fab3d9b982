// Package jobs executes commands. It takes them in, executes each one at the provider
// under one idempotency key, and records the outcome.
//
// Read decide.Decide first: it is the only place where outcomes are decided, it reads
// no clock and does no I/O: (operation, what happened) → (facts, what next). This
// package is the shell around it: intake, the rate gate, the workers that send, the
// loop that queues what has come due, and what a person changes. The comparison with
// the provider is in reconcile, what people ask in inspect, commands in command.
//
// The shell keeps one order, always: the intent is on the disk before the first
// byte is sent, the result is on the disk before anything follows from it, and
// a command is acknowledged after it was accepted.
package jobs
