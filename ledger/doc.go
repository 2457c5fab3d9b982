// Package ledger keeps one account's facts, and the money that follows from them, in one
// SQLite file.
//
// The journal is an append-only, hash-chained list of facts. Every other table is a
// projection. The projector alone writes projections, in the transaction that appends the
// fact, so they can be dropped and rebuilt at any time. Running totals are projections too;
// apply gathers totals and net_charges and writes them at the commit. Triggers keep
// state_counts.
//
// Some tables are not projections. Caches of the provider's data (proxies, moves, listing)
// are rebuilt by reading the provider again
// (docs/decisions/0002-observations-are-not-facts.md). The table published notes how far
// the events stream has come. Archived state comes back from its snapshot, not through
// apply.
//
// One goroutine makes all writes and commits whatever is waiting at once (group commit).
// When Write returns nil the facts are on the disk.
//
// Money is int64 cents. Instants are stored as microseconds since 1970 UTC. The package
// knows nothing of NATS, of HTTP or of what a command means.
//
// Ledger has the writer and the file. Reads are in package tables by subject, and Journal
// reads rows; package report writes statements and exports.
//
// Files named journal_ hold the writer and its proof; apply_ the projections; tx_ what a
// transaction reads; file_ the SQLite file, its copies and its archives. Package chain has
// the rows, package fact the facts.
package ledger
