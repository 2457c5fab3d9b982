// Package upstream is a client of the provider's customer API (version 1).
//
// The client signs requests, sends each once, limits response sizes and decodes replies.
// It makes no decisions. [Client.Post] is for programs that record what they send.
// [Client.CreateOrder], [Client.AwaitOrder] and [Client.Renew] are for programs that keep
// no record. The examples show every endpoint; testdata/transcripts shows the bytes on the
// wire. The package makes three promises:
//
//   - One call to [Client.Post] puts at most one request on the wire. It never resends
//     and never follows a redirect. [Reply.Sent] says whether any byte may have left.
//   - Secrets do not leak. The decoded types have no fields for proxy credentials.
//     [Client.Reveal] is the only exception, and its result prints as "[redacted]".
//   - Money is whole cents in int64. A fraction, a float, a missing amount or a
//     duplicate key is an error or is reported missing, never read as zero.
//
// A Client is safe for concurrent use.
package upstream
