// Package inspect answers what people ask about commands: the status of one, which
// ones there are, what an operation waits for, and the evidence that a review needs.
// It reads the ledger, and where evidence is asked for the provider, and writes
// nothing.
package inspect
