// Package webhook delivers an account's events to an HTTP endpoint, signed as Standard
// Webhooks asks for (https://www.standardwebhooks.com). It promises:
//
//   - Each event gets a 2xx at least once, or is still tried. None is left out.
//   - The events of one command, and so those of one operation, are sent in the journal's
//     order: none before the one in front of it got its 2xx. Those of other commands are
//     sent meanwhile, until a bounded number is undelivered ([Sink]).
//   - A restart, or another runner, continues where the stored position says, also where the
//     history was cut after it (docs/decisions/0022).
//   - Neither the secret nor more of the address than scheme and host is logged.
//
// Clock, randomness, transport, events and positions are handed in: the package knows no
// NATS and no ledger.
package webhook
