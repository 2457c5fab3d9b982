// Package chain has the rows of the journal: how each is hashed over the row before it, and
// how it becomes a published event. It knows no fact and no projection.
package chain
