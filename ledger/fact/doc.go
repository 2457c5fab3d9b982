// Package fact holds the type of every fact in the journal, with its name and its JSON,
// and the kinds, states and records of operations that facts lead to. It opens no
// database. A fact's fields are permanent: add, never rename or reuse.
package fact
