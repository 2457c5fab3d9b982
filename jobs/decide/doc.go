// Package decide says what happens to an operation next. Decide takes the operation and
// one thing that happened to it, and returns the facts to append and what to do next.
// It is pure: no I/O, no clock, no context. The tables of docs/state-machine.md
// are its specification; the runner, package jobs, does what it says.
package decide
