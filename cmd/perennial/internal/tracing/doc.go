// Package tracing sends the trace of each finished command, built from its journal rows
// (docs/decisions/0021).
//
// Span ids derive from the ids of the command and its operations. If two runs send the same
// trace, the receiver therefore sees a single trace. A receiver that does not respond delays
// nothing: unsent traces are dropped.
//
// The package reads the ledger and does not know the phases of an account.
package tracing
