// Package outbox publishes an account's journal, in order, to its events stream, and sends
// the results in its rows to inboxes.
//
// Events reach the stream without gaps or duplicates, whatever crashes. If another runner's
// row is in the place of its own, the outbox reports it and never overwrites it. If a
// stream lost more than a power cut explains, or has another history, the account stops.
//
// The package reads a [Source], not a ledger. It must not depend on a row's meaning.
package outbox
