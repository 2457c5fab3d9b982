// Package jobs executes commands. It accepts each command, splits it into operations, sends
// each operation to the provider under one idempotency key, and records the outcome.
//
// Read decide.Decide first. It alone decides what an event means for an operation:
// (operation, event) → (facts, next action). This package does the input and output around
// that function. NewRunner composes these parts: intaker accepts commands, and loader
// queues operations when they come due. workers pass them to attempts, which uses checker
// and pricing before a charge. link makes the reads, holds and prober manage the pauses,
// recovery continues what earlier runs left, and books compares the ledger with the
// provider. Package desk makes the changes of operators, package reconcile compares,
// package inspect answers questions, and package command defines commands.
//
// The order of writes is fixed. The intent is on disk before the first byte is sent. The
// result is on disk before the next step starts. A command is acknowledged after its
// acceptance, refusal, conflict or dead letter is stored.
package jobs
