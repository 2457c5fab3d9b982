// Package inspect answers questions about commands: their status, their lists, what an
// operation waits for, and the evidence for a review. It reads the ledger, and for
// evidence also the provider. It writes nothing. It also plans what Retry and Resolve
// send again; they write the plan.
package inspect
