// Package report writes reports on the books for people: statements of a month or a day,
// exports (CSV, JSON lines, Beancount), and lists of who changed what and why.
//
// It reads the ledger's tables and journal, and writes nothing into them.
package report
