// Package cli implements the CLI commands, their flags, exit codes and output (docs/cli.md).
// `run` and `demo` start package daemon, `bench` starts package bench, and `sandbox` serves
// the sandbox. The other commands ask a runner over NATS, call the provider's API, or open
// the ledger file.
package cli
