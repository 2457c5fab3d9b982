// Package outbox publishes an account's journal, in order, to its events stream, and sends
// the answers of its rows.
//
// It promises that events reach the stream without gap or duplicate, whatever crashes. It
// reports another runner's row in place of its own, and never overwrites it. A stream that
// lost more than a power cut can take, or that has another history, stops the account.
//
// It reads a [Source], not a ledger, and knows nothing of a row's meaning.
package outbox
