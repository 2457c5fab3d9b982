// Package fact is what the journal holds: the type of every fact, with its name and
// its JSON, and what facts come to: the kinds, states and records of operations. It
// opens no database. A fact's fields are for ever: add, never rename or reuse.
package fact
