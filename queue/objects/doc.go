// Package objects keeps what is too large for a message: snapshots of a ledger's state, and
// the proxies as a runner last listed them.
//
// It promises that an object is stored whole or not listed, that its content is compared with
// its digest when it is read to the end, and that what a storing that was cut short has left
// is removed by the next. A store that would lose snapshots is refused.
//
// It knows nothing of what an object holds.
package objects
