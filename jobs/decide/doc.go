// Package decide decides what happens to an operation next. Decide takes the operation and
// one event, and returns the facts to append and the next action. It is pure: no I/O, no
// clock, no context. The tables of docs/state-machine.md are its specification. Package
// jobs executes its decisions.
package decide
