// Package outbox publishes an account's journal, in order, to its events stream, and sends
// the answers of its rows.
//
// It promises that events reach the stream with no gap and no duplicate, whatever crashes;
// that a row of another runner in the place of one's own is reported and never overwritten;
// and that a stream which lost more than a power cut takes, or whose history is another one,
// stops the account.
//
// It has a [Source] in place of a ledger, and knows nothing of what a row says.
package outbox
