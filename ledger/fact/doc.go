// Package fact defines the type of every fact in the journal, with its name and JSON. It
// also defines the kinds, states and records of operations that are derived from facts. It
// opens no database. A fact's fields are permanent: fields may be added, but never renamed
// or reused for other data.
package fact
