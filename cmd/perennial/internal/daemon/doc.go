// Package daemon is `perennial run`. It starts NATS, the ledgers and one runner per
// account. It serves the accounts' verbs over NATS, and health, metrics and the web UI
// over HTTP. It wires the other packages together. Package jobs defines what commands
// mean.
package daemon
