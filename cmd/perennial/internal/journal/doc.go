// Package journal ties an account's ledger to its events stream.
//
// The stream is either a copy of the ledger's journal, published after each commit, or on an
// external NATS the journal itself: a row is a fact once it is on the stream, and every runner
// folds it. The package promises that a ledger and a stream that do not belong together are
// told apart, with what to do; that rows are folded in order and whole; and that a ledger made
// again starts from a snapshot for which an event vouches.
//
// It knows no account's life, no provider and no configuration.
package journal
