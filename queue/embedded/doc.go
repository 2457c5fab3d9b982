// Package embedded runs a NATS server with JetStream inside this process.
//
// The server syncs a write before it acknowledges it, except for events, whose first copy is the
// ledger. It listens on loopback only. If users are configured, each has its own NATS account.
// If the server can no longer store messages, it returns an error and can be restarted with the
// same address and files.
//
// The package owns the server's store directory. It must not depend on the streams and
// their content.
package embedded
