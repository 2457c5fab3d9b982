// Package daemon is `perennial run`: it starts NATS, the ledgers and one runner for
// each account, serves the accounts' verbs over NATS and health, metrics and the
// dashboard over HTTP, and wires the other packages together. What commands mean is
// in package jobs.
package daemon
