// Package ledger keeps one account's facts and the money that follows from
// them, in one SQLite file.
//
// The journal is an append-only, hash-chained list of facts. Every other table
// is a projection: projector is the only code that writes one, and it runs inside
// the transaction that appends the fact, so a projection can always be thrown
// away and rebuilt. Running totals are projections too; triggers keep
// state_counts. The exceptions are caches of what the provider said (proxies,
// moves, listing), which are rebuilt by reading it again
// (docs/decisions/0002-observations-are-not-facts.md), and published, a note of
// how far the events stream went. What was archived comes back from its snapshot,
// not through apply; totals and net_charges are gathered by apply and written at the commit.
//
// All writes go through one goroutine that commits whatever is waiting at once
// (group commit). When Write returns nil the facts are on the disk.
//
// Money is int64 cents. Instants are stored as microseconds since 1970 UTC.
// The package knows nothing of NATS, of HTTP or of what a command means.
//
// Ledger has the writer and the file. What reads is in parts by subject: Journal (rows),
// Operations, Fleet, Sweeps, Money and Metrics.
//
// Its files: journal_ is the writer, the chain and its proof; apply_ is what facts
// do to the projections; file_ is the SQLite file, its copies and its archives;
// query_ and report_ read; the few writes of the caches are beside their queries.
// The facts are in package fact.
package ledger
