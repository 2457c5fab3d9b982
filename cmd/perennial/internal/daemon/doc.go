// Package daemon implements `perennial run`. It starts NATS, the ledgers and one runner per
// account. It answers the accounts' service requests over NATS, and serves health, metrics and
// the web UI over HTTP. It connects the other packages. Package jobs defines what commands
// mean.
package daemon
