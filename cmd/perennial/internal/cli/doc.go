// Package cli is the command line: the commands of the program, their flags, exit codes
// and output (docs/cli.md). `run` and `demo` start package daemon, `bench` package bench,
// `sandbox` serves the sandbox; the others ask a running program over NATS, call the provider's
// API, or open the ledger's file.
package cli
