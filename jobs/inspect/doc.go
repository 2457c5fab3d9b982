// Package inspect answers questions about commands: their status, lists of them, why an operation
// waits, and the evidence for a review. It reads the ledger and, for evidence, the provider, and
// writes nothing. It also plans the operations that an operator's retry or answer sends again.
// Package desk writes these operations to the ledger.
package inspect
