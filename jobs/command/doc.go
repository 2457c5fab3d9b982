// Package command parses and checks the commands of producers strictly. It derives a
// command's content hash, splits the command into operations, and derives the idempotency
// key of each operation. It is pure: no I/O, no clock.
package command
