// Package report writes what people read of the books: statements of a month or a day,
// exports (CSV, JSON lines, Beancount), and who changed what and why.
//
// It reads the ledger's tables and journal, and writes nothing into them.
package report
