// Package positions stores how far each webhook of an account has delivered its events.
//
// It promises that a position only replaces the one that was read. If an operator moved it,
// or another runner has the account, the writer gets an error.
//
// It owns the account's bucket of webhooks. It knows neither the events nor their
// endpoints.
package positions
