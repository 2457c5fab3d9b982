// Package upstream is a client of the provider's customer API (version 1).
//
// The client signs requests, limits response sizes and decodes replies. It makes no decisions.
// Programs that record their requests use [Client.Post]. Programs that keep no record use
// [Client.CreateOrder], [Client.AwaitOrder] and [Client.Renew]. The examples show every
// endpoint. testdata/transcripts shows the bytes of requests and responses. A trap number in a
// comment refers to testdata/traps. The package makes three promises:
//
//   - One call of [Client.Post] sends at most one request, and no request follows a redirect.
//     [Reply.Sent] says whether a byte may have been sent. net/http may resend a GET whose
//     reused connection fails.
//   - Secrets do not leak. The decoded types have no fields for proxy credentials.
//     [Client.Reveal] is the only exception, and its result prints as "[redacted]".
//   - An amount that a charge or a refund depends on is an int64 number of cents. A fraction, a
//     float, a missing amount or a duplicate key is never read as zero. The client returns an
//     error or reports the field as missing.
//
// A Client is safe for concurrent use.
package upstream
