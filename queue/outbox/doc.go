// Package outbox publishes an account's journal, in order, to its events stream, and sends
// the results in its rows to inboxes.
//
// Events reach the stream without gaps or duplicates, whatever crashes. If the stream has
// another runner's row with the same sequence as a row of the journal, the outbox returns an
// error and overwrites nothing. If a stream lost more than a power cut explains, or has another
// history, the account stops.
//
// The package reads a [Source], not a ledger. It must not depend on a row's meaning.
package outbox
