// Package positions keeps how far each webhook of an account has delivered its events.
//
// It promises that a position is written only over the one that was read: where a person
// moved it, or another runner has the account, the writer learns so.
//
// It owns the account's bucket of webhooks. It knows neither the events nor the endpoints
// that they go to.
package positions
