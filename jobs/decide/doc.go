// Package decide chooses every outcome of an operation. Decide takes the operation and
// one thing that happened to it, and returns the facts to append and what to do next.
// It is pure: no I/O, no clock, no context. The reply table of docs/state-machine.md
// is its specification; the runner, package jobs, does what it says.
package decide
