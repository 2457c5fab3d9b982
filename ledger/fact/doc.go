// Package fact defines the type of every fact in the journal, with its name and JSON. It
// also defines the kinds, states and records of operations that follow from facts. It opens
// no database. A fact's fields are permanent: add fields, never rename or reuse them.
package fact
