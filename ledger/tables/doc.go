// Package tables reads the tables that the ledger derives from its journal, by subject:
// Operations, Fleet (proxies), Sweeps (runs of schedules), Money and Metrics.
//
// The package never writes. It does not depend on the facts that change the tables, nor on
// the writer that applies them. The SQL texts that it exports are also read inside the
// writer's transactions.
package tables
