// Package jobs executes commands. It takes commands in and cuts each into operations. It
// executes each operation at the provider under one idempotency key and records the
// outcome.
//
// Read decide.Decide first: it alone decides what an event means for an operation:
// (operation, event) → (facts, next action). This package is the shell around it, in parts
// that NewRunner composes: intaker takes commands in, loader queues operations as they come
// due, workers give them to attempts, which ask checker and pricing before they pay. link
// holds the reads, holds and prober the pauses, recovery what earlier runs left, and books
// the comparisons with the provider. Package desk makes the changes of operators, package
// reconcile compares, package inspect answers questions, and package command defines
// commands.
//
// The shell always keeps one order. The intent is on disk before the first byte is sent.
// The result is on disk before anything follows from it. A command is acknowledged after
// its outcome is on disk: accepted, refused, duplicate, or dead letter.
package jobs
