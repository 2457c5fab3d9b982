// Package jobs executes commands. It takes them in, cuts each into operations, executes
// each of these at the provider under one idempotency key, and records the outcome.
//
// Read decide.Decide first: it is the only place that decides what a reply or a read of
// the provider, a price, a limit or a passed time means for an operation. It reads no
// clock and does no I/O: (operation, what happened) → (facts, what next). This package
// is the shell around it: intake, the rate gate, the workers that send, the loop that
// queues what has come due. What is refused on arrival is in accept.go, what a person
// changes in operator.go and resolve.go. The comparison with the provider is in
// reconcile, what people ask in inspect, commands in command.
//
// The shell keeps one order, always: the intent is on the disk before the first
// byte is sent, the result is on the disk before anything follows from it, and a
// command is acknowledged when what became of it is on the disk: accepted, refused,
// seen before, or a dead letter.
package jobs
