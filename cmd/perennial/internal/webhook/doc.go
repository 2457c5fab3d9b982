// Package webhook delivers an account's events to an HTTP endpoint, signed according to
// Standard Webhooks (https://www.standardwebhooks.com). It promises:
//
//   - Each event is retried until it gets a 2xx. None is left out.
//   - The events of one command, and so of one operation, are sent in the journal's order:
//     each waits for the 2xx of the previous one. Other commands' events are sent
//     meanwhile, up to a bounded number of undelivered events ([Sink]).
//   - A restart, or another runner, continues from the stored position, even if the
//     history was cut after it (docs/decisions/0022).
//   - Logs never show the secret, nor more of the address than scheme and host.
//
// Clock, randomness, transport, events and positions are injected: the package knows
// neither NATS nor the ledger.
package webhook
