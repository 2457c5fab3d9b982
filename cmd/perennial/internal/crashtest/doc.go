// Package crashtest starts the program as real processes, stops and kills them, and then
// compares the ledger, the provider's charges, the wallet and the events. The tests use only
// documented interfaces: arguments, files, exit codes, subjects and JSON.
package crashtest
