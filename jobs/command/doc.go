// Package command is what a producer asks for: it parses a command strictly, checks
// it, gives it the hash that tells two contents of one id apart, cuts it into
// operations, and derives the idempotency key of each. It is pure: no I/O, no clock.
package command
