// Package sandbox is a local server of the complete customer API. Clients and tests can use
// it without an account at the provider. The sandbox has both environments, signatures,
// nonces, scopes, idempotency records, page tokens, scenarios and limits.
//
// The state is in memory. With a database file, every change is durable before the sandbox
// replies. The sandbox also writes every charge and refund to a separate append-only file,
// the referee. It syncs the referee before any reply or fault. Crash tests compare ledgers
// with the referee, which shares no code with the ledgers.
//
// In README.md and in comments, "assumed" marks a choice that the API document leaves open.
// "Extension" marks an addition to the API, such as faults and the control interface.
package sandbox
