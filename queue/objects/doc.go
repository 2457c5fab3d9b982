// Package objects stores what is too large for a message: snapshots of a ledger's state,
// and the proxies of a runner's last listing.
//
// It promises that an object is stored whole or not listed, and that reading it to the end
// checks its digest. Remains of an interrupted store are removed by the next one. A bucket
// that would lose snapshots is refused.
//
// It knows nothing of an object's content.
package objects
