// Package embedded runs a NATS server with JetStream inside this process.
//
// It promises that a write is synced before it is acknowledged, except events, whose first
// copy is the ledger; that the server listens on loopback only; that with users each has its
// own NATS account; and that a server which stores nothing says so and can be restarted on
// its address and files.
//
// It owns the server's store directory. It knows no stream: what is stored is others' matter.
package embedded
