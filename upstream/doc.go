// Package upstream is a client of the provider's customer API (version 1).
//
// It signs, sends once, bounds and reads; it decides nothing. [Client.Post] is for
// programs that keep a record of what they sent; [Client.CreateOrder],
// [Client.AwaitOrder] and [Client.Renew] are for those that do not. The examples
// show every endpoint, and testdata/transcripts what goes over the wire. Three
// promises hold everywhere:
//
//   - One call to [Client.Post] puts at most one request on the wire: it never
//     resends, never follows a redirect and says in [Reply.Sent] whether a byte
//     of it may have left.
//   - Nothing secret comes out: proxy credentials are dropped while decoding by
//     types that have no place for them. [Client.Reveal] is the only exception,
//     and what it returns prints as "[redacted]".
//   - Money is whole cents in int64. A fraction, a float, a missing figure or a
//     key that appears twice is an error or is reported missing, never a zero.
//
// A Client is safe for concurrent use.
package upstream
