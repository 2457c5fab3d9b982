// Package chain defines the rows of the journal: how each row is hashed together with the
// hash of the row before it, and how it becomes a published event. It has no knowledge of
// particular facts.
package chain
