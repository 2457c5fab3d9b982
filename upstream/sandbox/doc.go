// Package sandbox serves the whole customer API locally, so that clients and
// tests run without an account at the provider: both environments, signatures,
// nonces, scopes, idempotency records, page tokens, scenarios and limits.
//
// State lives in memory; with a database file every change is durable before
// its reply. Every charge and refund is also written to a separate append-only
// file, the referee, synced before any reply or fault: it is what crash tests
// compare a ledger with, and shares no code with one.
//
// Choices that the API document leaves open are listed as assumed, and what goes
// beyond it (faults, control) as extension, in README.md.
package sandbox
