// Package command parses the commands of producers strictly and checks them. It derives
// a command's content hash, cuts the command into operations, and derives the
// idempotency key of each. It is pure: no I/O, no clock.
package command
