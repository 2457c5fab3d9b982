// Package cli is the command line: one file for each command of the program,
// with its flags, its exit code and what it prints (docs/cli.md). It serves
// nothing by itself: `perennial run` starts package daemon, and the other commands
// ask a running one over NATS, or read its files.
package cli
