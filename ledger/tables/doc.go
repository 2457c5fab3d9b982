// Package tables reads the tables that the ledger derives from its journal, by subject:
// Operations, Fleet (proxies), Sweeps (runs of schedules), Money and Metrics.
//
// It never writes. It knows the tables and their rows, and neither the facts that change
// them nor the writer that applies these. What it exports as SQL is read inside the writer's
// transactions too.
package tables
