// Package inspect answers what people ask about commands: the status of one, which
// ones there are, what an operation waits for, and the evidence that a review needs.
// It reads the ledger, and where evidence is asked for the provider, and writes
// nothing. It also plans what Retry and Resolve would send again; they write it.
package inspect
