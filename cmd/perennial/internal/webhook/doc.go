// Package webhook delivers an account's events to an HTTP endpoint, signed as Standard
// Webhooks (https://www.standardwebhooks.com) specifies. It promises:
//
//   - Each event is retried until the endpoint replies with a 2xx. After a 410, nothing is
//     sent until the runner restarts. No event is left out unless the stream has lost it,
//     which is logged.
//   - The events of one command and its operations are sent in the journal's
//     order. Each event is sent only after the previous event got a 2xx. Meanwhile, events of
//     other commands are sent, up to a limit of undelivered events ([Sink]).
//   - After a restart or failover, delivery continues at the stored position, even if
//     the history was cut (docs/decisions/0022).
//   - The log never contains the secret, nor any part of the address except scheme and
//     host.
//
// The caller provides the clock, randomness, transport, events and positions. The package
// does not know NATS or the ledger.
package webhook
