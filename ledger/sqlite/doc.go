// Package sqlite reads rows of the ledger's SQLite file and converts instants to and from
// the form in which it stores them. It knows no table.
package sqlite
