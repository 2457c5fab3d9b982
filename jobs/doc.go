// Package jobs executes commands. It takes commands in and cuts each into operations. It
// executes each operation at the provider under one idempotency key and records the
// outcome.
//
// Read decide.Decide first: it alone decides what an event means for an operation:
// (operation, event) → (facts, next action). This package is the shell around it: the
// intake, the rate gate, the workers that send, and the loop that queues operations as
// they come due. accept.go refuses commands on arrival. operator.go and package desk
// hold the changes that operators make. Package reconcile compares the books with the
// provider, package inspect answers questions, and package command defines commands.
//
// The shell always keeps one order. The intent is on disk before the first byte is sent.
// The result is on disk before anything follows from it. A command is acknowledged after
// its outcome is on disk: accepted, refused, duplicate, or dead letter.
package jobs
