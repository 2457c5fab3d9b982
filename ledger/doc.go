// Package ledger keeps the facts of one account, and the money that follows from them, in one
// SQLite file.
//
// The journal is an append-only, hash-chained list of facts. Nearly all other tables are
// projections of it. Only the projector writes projections, in the transaction that appends the
// fact, so projections can be dropped and rebuilt at any time. Triggers maintain the projection
// state_counts.
//
// Some tables are not projections. Caches of the provider's data (proxies, moves, listing) are
// rebuilt by reading the provider again (docs/decisions/0002-observations-are-not-facts.md). The
// table named published records how much of the journal the events stream has stored. The state
// of archived rows is loaded from a snapshot, not through apply.
//
// One goroutine makes all writes and commits the waiting writes together (group commit). When
// Write returns nil, the facts are on disk.
//
// Money is int64 cents. Instants are stored as microseconds since 1970 UTC. The package does not
// depend on NATS, on HTTP or on the meaning of commands.
//
// Ledger owns the writer and the file. Package tables has the queries, by subject. Journal reads
// rows, and package report makes statements and exports.
//
// Files named journal_* contain the writer and the verification, apply* the projections, and
// file_* the SQLite file, its copies and its archives. Tx, in tx.go, is what a caller of Write
// uses. Package chain defines the rows, and package fact the facts.
package ledger
