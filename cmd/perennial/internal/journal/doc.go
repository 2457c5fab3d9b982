// Package journal connects an account's ledger with its events stream.
//
// On an embedded NATS server, the stream is a copy of the ledger's journal. The outbox
// publishes each row after its commit. On an external NATS, the stream itself is the journal.
// A row is valid when it is on the stream, and every runner applies the row to its own ledger.
//
// The package detects a ledger and a stream that do not belong together, and its error tells
// the operator what to do. It applies rows in order and without gaps. It rebuilds a ledger only
// from a snapshot whose hash an event on the stream records.
//
// The package does not know the phases of an account, the provider or the configuration.
package journal
