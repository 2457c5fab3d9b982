// Package sqlite reads rows from the ledger's SQLite file and converts instants to and from
// their stored form. It has no knowledge of any particular table.
package sqlite
