// Package sandbox serves the whole customer API locally. Clients and tests can then run
// without an account at the provider. It has both environments, signatures, nonces,
// scopes, idempotency records, page tokens, scenarios and limits.
//
// State is in memory. With a database file every change is durable before its reply. Every
// charge and refund also goes to a separate append-only file, the referee, which is synced
// before any reply or fault. Crash tests compare ledgers with the referee, which shares no
// code with them.
//
// README.md lists choices that the API document leaves open as assumed, and additions to
// it (faults, control) as extension.
package sandbox
