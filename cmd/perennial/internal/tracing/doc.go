// Package tracing sends the trace of each command that has ended, made from its journal rows
// (docs/decisions/0021).
//
// The ids of spans follow from the ids of command and operation, so a trace that two runs send
// is one trace. A receiver that does not answer holds nothing up: what cannot be sent is lost.
//
// It reads the ledger and knows no account's life.
package tracing
