// Package crashtest holds the tests that start the program as real processes, stop
// and kill them, and compare what is left: ledger, provider's charges, wallet and
// events. It uses what is documented: arguments, files, exit codes, subjects, JSON.
package crashtest
