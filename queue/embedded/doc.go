// Package embedded runs a NATS server with JetStream inside this process.
//
// It promises that a write is synced before it is acknowledged, except for events, whose
// first copy is the ledger. The server listens on loopback only. With users, each has its
// own NATS account. A server that stores nothing reports so, and can be restarted on its
// address and files.
//
// It owns the server's store directory. It knows nothing of streams and their content.
package embedded
