// Package webhook delivers an account's events to an HTTP endpoint, signed by the Standard
// Webhooks specification (https://www.standardwebhooks.com). It promises:
//
//   - Each event is retried until it gets a 2xx. None is left out.
//   - The events of one command, and of its operations, are sent in the journal's
//     order. Each is sent only after the previous one got its 2xx. Events of other
//     commands are sent meanwhile, up to a limit of undelivered events ([Sink]).
//   - After a restart or failover, delivery continues at the stored position, even if
//     the history was cut (docs/decisions/0022).
//   - The log never contains the secret, or more of the address than scheme and host.
//
// The caller supplies clock, randomness, transport, events and positions. The package does
// not know NATS or the ledger.
package webhook
