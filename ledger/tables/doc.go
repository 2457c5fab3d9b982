// Package tables reads the tables that the ledger derives from its journal, by subject:
// Operations, Fleet (proxies), Sweeps (runs of schedules), Money and Metrics.
//
// The package never writes, and has no knowledge of which fact changes which table. The
// writer runs the SQL texts that it exports inside its transactions too.
package tables
