// Package jobs executes commands. It accepts each command, splits it into operations, sends each
// operation to the provider under one idempotency key, and records the outcome.
//
// Read decide.Decide first. It alone decides what an event means for an operation: (operation,
// event) → (facts, next action). This package performs the input and output for that function.
//
// NewRunner composes the parts. intaker accepts commands, and loader queues operations when they
// come due. workers pass queued operations to attempts. Before a charge, attempts uses checker
// and pricing. link sends the reads. holds and prober manage the pauses. recovery continues the
// unfinished work of earlier runs. books compares the ledger with the provider.
//
// Four subpackages contain the rest: desk makes the changes that operators request, reconcile
// compares the books with the provider, inspect answers questions, and command defines commands.
//
// The order of writes is fixed. The intent is on disk before the first byte is sent. The result
// is on disk before the next step starts. A command is acknowledged after its acceptance,
// refusal, conflict or dead letter is stored.
package jobs
