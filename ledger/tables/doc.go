// Package tables reads the tables that the ledger derives from its journal, by subject:
// Operations, Fleet (proxies), Sweeps (runs of schedules), Money and Metrics.
//
// The package never writes, and has no knowledge of which fact changes which table. Inside
// its transactions, the writer also runs SQL texts that this package exports.
package tables
