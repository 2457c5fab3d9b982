// Package positions stores how far each webhook of an account has delivered its events.
//
// A position is written only if it is unchanged since the writer read it. If an operator
// moved it, or another runner has the account, the writer gets an error.
//
// The package owns the account's bucket of webhooks. It must not depend on the events or
// their endpoints.
package positions
